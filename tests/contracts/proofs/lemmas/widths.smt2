; No product or sum of the formulas reaches 2^256.
; @custom:theorem widths
; @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
;
; Stakes, sums of offers and principals are below 2^64 (a), accumulators below 2^96 (acc), basis points below 2^16 (bps), kappa below 2^32:
; no product or sum of the formulas reaches 2^256, so what the EVM computes is what integers say. The last two are of the agent
; markets: nets, shares and weights below 2^80 (n), a logarithm as a wad below 2^80.
(set-logic QF_NIA)
(define-const S Int 1000000000000000000)
(define-const word Int 115792089237316195423570985008687907853269984665640564039457584007913129639936)
(declare-const a Int) (declare-const b Int) (declare-const acc Int) (declare-const bps Int) (declare-const kappa Int)
(declare-const n Int) (declare-const m Int)
(assert (and (<= 0 a 18446744073709551615) (<= 0 b 18446744073709551615)))
(assert (and (<= 0 acc 79228162514264337593543950335) (<= 0 bps 65535) (<= 0 kappa 4294967295)))
(assert (and (<= 0 n 1208925819614629174706175) (<= 0 m 1208925819614629174706175)))
(push) (assert (and (= a 1) (= b 1) (= acc S) (= bps 1) (= kappa 1) (= n 1) (= m 1))) (check-sat) (pop)
(assert (not (and
  (< (* (* 2 a) b) word) (< (+ acc (* a S)) word) (< (* a (+ S acc)) word) (< (* a bps) word) (< (* kappa a) word)
  (< (* n S) word) (< (* n m) word))))
(check-sat)
