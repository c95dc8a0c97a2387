"""Fixed-point arithmetic with the same results as the contracts.

A wad is an integer in which 10**18 stands for one. Solidity's `sar` is Python's `>>`: both round towards minus
infinity. `sdiv` rounds towards zero. No intermediate value exceeds 256 bits, so Python's unbounded integers give the
same results.
"""

from __future__ import annotations

from typing import Final

WAD: Final = 10**18
MAX_INT256: Final = 2**255 - 1


def sdiv(a: int, b: int) -> int:
    """Return a / b rounded towards zero, as Solidity divides signed integers."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def ln_wad(x: int) -> int:
    """Return ln(x / 1e18) * 1e18 for a wad `x` above 0, approximated and rounded down as Solady's
    `FixedPointMathLib.lnWad` does.

    Before rounding, the approximation is less than 0.06 too high or too low for all ratios that prices need (1 to
    2**41).
    """
    if not 0 < x <= MAX_INT256:
        raise ValueError(f"ln_wad takes a positive int256, not {x}")
    log2 = x.bit_length() - 1
    # x as a number in [1, 2), scaled by 2**96; what was divided out comes back below as a multiple of ln 2.
    x = (x << (255 - log2)) >> 159

    # An (8, 8)-term rational approximation.
    p = ((x + 3273285459638523848632254066296) * x >> 96) + 24828157081833163892658089445524
    p = (p * x >> 96) + 43456485725739037958740375743393
    p = (p * x >> 96) - 11111509109440967052023855526967
    p = (p * x >> 96) - 45023709667254063763336534515857
    p = (p * x >> 96) - 14706773417378608786704636184526
    p = p * x - (795164235651350426258249787498 << 96)
    q = x + 5573035233440673466300451813936
    q = (q * x >> 96) + 71694874799317883764090561454958
    q = (q * x >> 96) + 283447036172924575727196451306956
    q = (q * x >> 96) + 401686690394027663651624208769553
    q = (q * x >> 96) + 204048457590392012362485061816622
    q = (q * x >> 96) + 31853899698501571402653359427138
    q = (q * x >> 96) + 909429971244387300277376558375

    r = 1677202110996718588342820967067443963516166 * sdiv(p, q)
    r += 16597577552685614221487285958193947469193820559219878177908093499208371 * (log2 - 96)
    r += 600920179829731861736702779321621459595472258049074101567377883020018308
    return r >> 174
