// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// What VestedMarkets keeps in storage, one word each, so that every record is read and written once. Fields are named from the
// lowest bits up. Amounts are token units, times Unix seconds. Writers stay within the widths given; each says why it may.

/// minEntry 32, maxEntry 48, sideCap 48, freezeTime 40, kappa 32, voidDelay 32, feeBps 16, status 8. Only the status changes.
type Terms is uint256;

/// vintageBlock 40 (of the vintage not finalized, 0 when there is none), vintages 24 (begun; the one not finalized has this
/// number, the seed has 0), demandUp 64, demandDown 64 (of that vintage; with no such vintage, half of a parked ration),
/// countUp 32, countDown 32 (positions, the seed's counted).
/// All that an entry into an open vintage changes.
type Flow is uint256;

/// principalUp 64, principalDown 64, paidPrincipal 64 (accepted amounts of the positions paid after settlement),
/// distributed 64 (paid to them before fees, and the residue). The principals are below 2^48 each.
/// Nothing is paid before settlement; until then the upper two are acceptedUp 64, acceptedDown 64 of a parked ration.
type Pool is uint256;

/// accUp 96, accDown 96 (both after the vintage), atBlock 40, rationed 8.
type Vintage is uint256;

/// offeredUp 64, offeredDown 64, acceptedUp 64, acceptedDown 64. Kept for a rationed vintage only. The ration of a vintage
/// that was finalized without a successor is parked in the flow and the pool, which finalizing writes anyway, and gets
/// a word of its own when the next vintage begins or the market settles.
type Ration is uint256;

/// owner 160, offeredThrough 64 (offered on its side in its vintage, up to and with it), vintage 24 (its number), flags 8.
type Position is uint256;

/// entriesPaused 8, markets 32, fees 88, liabilities 128.
type Totals is uint256;

// Bits of a position's flags.
uint256 constant REFUNDED = 1;
uint256 constant PAID = 2;

using {minEntry, maxEntry, sideCap, freezeTime, kappa, voidDelay, feeBps, status, withStatus} for Terms global;
using {vintageBlock, vintages, demandOf, countOf, begin, join, finalized, finalizedParking, parks} for Flow global;
using {principalUp, principalDown, paidPrincipal, distributed, pay, payResidue} for Pool global;
using {accOf, atBlock, rationed} for Vintage global;
using {offeredOf, acceptedOf} for Ration global;
using {owner, offeredThrough, vintage, flags, withOwner, withFlags} for Position global;
using {
    entriesPaused,
    markets,
    fees,
    liabilities,
    withPaused,
    addMarket,
    owe,
    settleDebt,
    withoutFees
} for Totals global;

// -------------------------------------------------------------------- Terms

function packTerms(
    uint32 minEntry_,
    uint48 maxEntry_,
    uint48 sideCap_,
    uint40 freezeTime_,
    uint32 kappa_,
    uint32 voidDelay_,
    uint16 feeBps_,
    uint8 status_
) pure returns (Terms) {
    return Terms.wrap(
        uint256(minEntry_) | uint256(maxEntry_) << 32 | uint256(sideCap_) << 80 | uint256(freezeTime_) << 128
            | uint256(kappa_) << 168 | uint256(voidDelay_) << 200 | uint256(feeBps_) << 232 | uint256(status_) << 248
    );
}

function minEntry(Terms t) pure returns (uint256) {
    return uint32(Terms.unwrap(t));
}

function maxEntry(Terms t) pure returns (uint256) {
    return uint48(Terms.unwrap(t) >> 32);
}

function sideCap(Terms t) pure returns (uint256) {
    return uint48(Terms.unwrap(t) >> 80);
}

function freezeTime(Terms t) pure returns (uint256) {
    return uint40(Terms.unwrap(t) >> 128);
}

function kappa(Terms t) pure returns (uint256) {
    return uint32(Terms.unwrap(t) >> 168);
}

function voidDelay(Terms t) pure returns (uint256) {
    return uint32(Terms.unwrap(t) >> 200);
}

function feeBps(Terms t) pure returns (uint256) {
    return uint16(Terms.unwrap(t) >> 232);
}

function status(Terms t) pure returns (uint8) {
    return uint8(Terms.unwrap(t) >> 248);
}

function withStatus(Terms t, uint8 status_) pure returns (Terms) {
    return Terms.wrap(Terms.unwrap(t) << 8 >> 8 | uint256(status_) << 248);
}

// -------------------------------------------------------------------- Flow

// The seed's two positions, no vintage.
Flow constant SEEDED = Flow.wrap(1 << 192 | 1 << 224);

function vintageBlock(Flow f) pure returns (uint256) {
    return uint40(Flow.unwrap(f));
}

function vintages(Flow f) pure returns (uint256) {
    return uint24(Flow.unwrap(f) >> 40);
}

function demandOf(Flow f, uint256 outcome) pure returns (uint256) {
    return uint64(Flow.unwrap(f) >> (64 + 64 * outcome));
}

function countOf(Flow f, uint256 outcome) pure returns (uint256) {
    return uint32(Flow.unwrap(f) >> (192 + 32 * outcome));
}

/// The caller has seen that none is open, that no ration is parked and that fewer than 2^24 - 1 were begun. Block numbers take 40 bits for ever.
function begin(Flow f, uint256 block_) pure returns (Flow) {
    return Flow.wrap(Flow.unwrap(f) + (1 << 40) + block_);
}

/// The caller has seen that demand and count stay within 64 and 32 bits.
function join(Flow f, uint256 outcome, uint256 amount) pure returns (Flow) {
    return Flow.wrap(Flow.unwrap(f) + (amount << 64 + 64 * outcome) + (1 << 192 + 32 * outcome));
}

/// Without an open vintage and without a parked ration: vintages and counts stay.
function finalized(Flow f) pure returns (Flow) {
    return Flow.wrap(Flow.unwrap(f) & (type(uint256).max << 192 | uint256(type(uint24).max) << 40));
}

/// Without an open vintage: what it offered stays, as half of its ration.
function finalizedParking(Flow f) pure returns (Flow) {
    return Flow.wrap(Flow.unwrap(f) >> 40 << 40);
}

/// Whether the last vintage's ration is parked here. A rationed vintage has offers.
function parks(Flow f) pure returns (bool) {
    return f.vintageBlock() == 0 && uint128(Flow.unwrap(f) >> 64) != 0;
}

// -------------------------------------------------------------------- Pool

/// Both at most the market's cap of a side.
function packPool(uint256 principalUp_, uint256 principalDown_) pure returns (Pool) {
    return Pool.wrap(principalUp_ | principalDown_ << 64);
}

function principalUp(Pool p) pure returns (uint256) {
    return uint64(Pool.unwrap(p));
}

function principalDown(Pool p) pure returns (uint256) {
    return uint64(Pool.unwrap(p) >> 64);
}

function paidPrincipal(Pool p) pure returns (uint256) {
    return uint64(Pool.unwrap(p) >> 128);
}

function distributed(Pool p) pure returns (uint256) {
    return Pool.unwrap(p) >> 192;
}

/// Both at most the market's cap of a side, and accepted amounts are parts of them. Only before settlement, when nothing is paid yet.
function packPoolParking(uint256 principalUp_, uint256 principalDown_, uint256 acceptedUp, uint256 acceptedDown)
    pure
    returns (Pool)
{
    return Pool.wrap(principalUp_ | principalDown_ << 64 | acceptedUp << 128 | acceptedDown << 192);
}

/// The ration parked in a flow and its pool.
function parkedRation(Flow f, Pool p) pure returns (Ration) {
    return Ration.wrap(uint128(Flow.unwrap(f) >> 64) | Pool.unwrap(p) >> 128 << 128);
}

/// Both sums are at most the two principals together, which are below 2^64; the upper one is checked.
function pay(Pool p, uint256 accepted, uint256 gross) pure returns (Pool) {
    return Pool.wrap(Pool.unwrap(p) + (accepted << 128) + (gross << 192));
}

function payResidue(Pool p, uint256 residue) pure returns (Pool) {
    return Pool.wrap(Pool.unwrap(p) + (residue << 192));
}

// -------------------------------------------------------------------- Vintage

/// Accumulators are below 2^96: see VestedMath.
function packVintage(uint256 accUp, uint256 accDown, uint256 atBlock_, bool rationed_) pure returns (Vintage) {
    return Vintage.wrap(accUp | accDown << 96 | atBlock_ << 192 | (rationed_ ? 1 << 232 : 0));
}

function accOf(Vintage v, uint256 outcome) pure returns (uint256) {
    return uint96(Vintage.unwrap(v) >> (96 * outcome));
}

function atBlock(Vintage v) pure returns (uint256) {
    return uint40(Vintage.unwrap(v) >> 192);
}

function rationed(Vintage v) pure returns (bool) {
    return Vintage.unwrap(v) >> 232 != 0;
}

// -------------------------------------------------------------------- Ration

/// Offers are at most the vintage's demand, 64 bits a side, and accepted amounts at most the offers.
function packRation(uint256 offeredUp, uint256 offeredDown, uint256 acceptedUp, uint256 acceptedDown)
    pure
    returns (Ration)
{
    return Ration.wrap(offeredUp | offeredDown << 64 | acceptedUp << 128 | acceptedDown << 192);
}

function offeredOf(Ration r, uint256 outcome) pure returns (uint256) {
    return uint64(Ration.unwrap(r) >> (64 * outcome));
}

function acceptedOf(Ration r, uint256 outcome) pure returns (uint256) {
    return uint64(Ration.unwrap(r) >> (128 + 64 * outcome));
}

// -------------------------------------------------------------------- Position

/// `through` is within 64 bits and `vintage_` within 24, as in the flow it comes from.
function packPosition(address owner_, uint256 through, uint256 vintage_) pure returns (Position) {
    return Position.wrap(uint256(uint160(owner_)) | through << 160 | vintage_ << 224);
}

function owner(Position p) pure returns (address) {
    return address(uint160(Position.unwrap(p)));
}

function offeredThrough(Position p) pure returns (uint256) {
    return uint64(Position.unwrap(p) >> 160);
}

function vintage(Position p) pure returns (uint256) {
    return uint24(Position.unwrap(p) >> 224);
}

function flags(Position p) pure returns (uint256) {
    return Position.unwrap(p) >> 248;
}

function withOwner(Position p, address owner_) pure returns (Position) {
    return Position.wrap(Position.unwrap(p) >> 160 << 160 | uint256(uint160(owner_)));
}

function withFlags(Position p, uint256 more) pure returns (Position) {
    return Position.wrap(Position.unwrap(p) | more << 248);
}

// -------------------------------------------------------------------- Totals

function entriesPaused(Totals t) pure returns (bool) {
    return uint8(Totals.unwrap(t)) != 0;
}

function markets(Totals t) pure returns (uint256) {
    return uint32(Totals.unwrap(t) >> 8);
}

function fees(Totals t) pure returns (uint256) {
    return uint88(Totals.unwrap(t) >> 40);
}

function liabilities(Totals t) pure returns (uint256) {
    return Totals.unwrap(t) >> 128;
}

function withPaused(Totals t, bool paused) pure returns (Totals) {
    return Totals.wrap(Totals.unwrap(t) >> 8 << 8 | (paused ? 1 : 0));
}

/// 2^32 markets are never reached.
function addMarket(Totals t) pure returns (Totals) {
    return Totals.wrap(Totals.unwrap(t) + (1 << 8));
}

/// The uppermost field, so an overflow is checked.
function owe(Totals t, uint256 amount) pure returns (Totals) {
    return Totals.wrap(Totals.unwrap(t) + (amount << 128));
}

/// Pays `amount` of what is owed and keeps `fee` of it as a fee. More than is owed is an arithmetic error; fees are part of
/// what is owed, and 2^88 is beyond what amounts of 64 bits in 2^32 markets can come to in fact.
function settleDebt(Totals t, uint256 amount, uint256 fee) pure returns (Totals) {
    return Totals.wrap(Totals.unwrap(t) - (amount << 128) + (fee << 40));
}

/// Fees sent away: owed no longer.
function withoutFees(Totals t) pure returns (Totals) {
    uint256 amount = fees(t);
    return Totals.wrap(Totals.unwrap(t) - (amount << 128) - (amount << 40));
}
