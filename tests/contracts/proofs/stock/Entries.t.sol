// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Flow, Position, Totals} from "../../../../contracts/stock/PackedWords.sol";
import {SettlerProof} from "./SettlerProof.sol";

/// What an entry does, into a vintage that this block has begun, and when it is refused.
/// @custom:bounds every state, time, caller and token that does not call back; in a vintage begun by this block
contract SettlerEntriesProof is SettlerProof {
    /// An entry books its amount, once it has arrived, as a position of its sender, and changes nothing else.
    /// @custom:theorem stock.enter.books
    /// @custom:bounds no more than 2^31 positions
    /// @custom:slow 600
    function check_enter(address sender, uint256 marketId, uint8 outcome, uint256 amount) public {
        Flow f = settler.flow(marketId);
        vm.assume(f.vintageBlock() == block.number && block.number != 0);
        vm.assume(f.countOf(0) <= 1 << 31 && f.countOf(1) <= 1 << 31); // from 1, one at a time, and refused there
        uint256 held = token.held();
        uint256 owed = settler.liabilities();
        vm.assume(isSolvent());
        vm.prank(sender);
        uint256 id = settler.enter(marketId, outcome, amount);
        assert(isSolvent());
        assert(!settler.entriesPaused());
        assert(token.held() == held + amount);
        assert(settler.liabilities() == owed + amount);
        assert(settler.terms(marketId).status() == uint8(IVestedMarkets.Status.Open));
        assert(block.timestamp < settler.terms(marketId).freezeTime());

        Flow g = settler.flow(marketId);
        assert(g.vintageBlock() == f.vintageBlock() && g.vintages() == f.vintages());
        assert(g.demandOf(outcome) == f.demandOf(outcome) + amount && g.countOf(outcome) == f.countOf(outcome) + 1);
        assert(g.demandOf(1 - outcome) == f.demandOf(1 - outcome) && g.countOf(1 - outcome) == f.countOf(1 - outcome));
        Position p = settler.positionWord(id);
        assert(p.owner() == sender && p.vintage() == f.vintages() && p.offeredThrough() == g.demandOf(outcome));
        assert(p.flags() == 0);
        assert(uint32(id) >> 1 == f.countOf(outcome) && id & 1 == outcome);
    }

    /// An outcome there is not, an amount out of bounds, 2^64 of demand and 2^31 positions are refused.
    /// @custom:theorem stock.enter.refuses
    function check_enter_refusesBeyond(address sender, uint256 marketId, uint8 outcome, uint256 amount) public {
        Flow f = settler.flow(marketId);
        vm.assume(f.vintageBlock() == block.number && block.number != 0);
        vm.assume(amount <= type(uint128).max);
        vm.assume(
            outcome > 1 || f.demandOf(outcome) + amount > type(uint64).max || f.countOf(outcome) == 1 << 31
                || amount < settler.terms(marketId).minEntry() || amount > settler.terms(marketId).maxEntry()
        );
        vm.prank(sender);
        try settler.enter(marketId, outcome, amount) {
            assert(false);
        } catch {}
    }
}
