// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {OpenSettler} from "./OpenSettler.sol";
import {SettlerProof} from "./SettlerProof.sol";

/// What an entry does, and when it is refused.
/// @custom:bounds every state, time, caller and token that does not call back
contract SettlerEntriesProof is SettlerProof {
    function demand(OpenSettler.Flow memory f, uint256 outcome) private pure returns (uint256) {
        return outcome == 0 ? f.demandUp : f.demandDown;
    }

    function count(OpenSettler.Flow memory f, uint256 outcome) private pure returns (uint256) {
        return outcome == 0 ? f.countUp : f.countDown;
    }

    /// An entry books its amount, once it has arrived, as a position of its sender, and changes nothing else.
    /// @custom:theorem stock.enter.books
    /// @custom:bounds in a vintage begun by this block; no more than 2^31 positions
    /// @custom:slow 600
    function check_enter(address sender, uint256 marketId, uint8 outcome, uint256 amount) public {
        OpenSettler.Flow memory f = settler.flow(marketId);
        vm.assume(f.vintageBlock == block.number && block.number != 0);
        vm.assume(count(f, 0) <= 1 << 31 && count(f, 1) <= 1 << 31); // from 1, one at a time, and refused there
        OpenSettler.Terms memory terms = settler.terms(marketId);
        uint256 held = token.held();
        uint256 owed = settler.liabilities();
        vm.assume(isSolvent());
        vm.prank(sender);
        uint256 id = settler.enter(marketId, outcome, amount);
        assert(isSolvent());
        assert(!settler.entriesPaused());
        assert(token.held() == held + amount);
        assert(settler.liabilities() == owed + amount);
        OpenSettler.Terms memory after_ = settler.terms(marketId);
        assert(terms.status == IVestedMarkets.Status.Open && after_.status == terms.status);
        assert(block.timestamp < terms.freezeTime && after_.freezeTime == terms.freezeTime);
        assert(after_.kappa == terms.kappa && after_.feeBps == terms.feeBps && after_.sideCap == terms.sideCap);

        OpenSettler.Flow memory g = settler.flow(marketId);
        assert(g.vintageBlock == f.vintageBlock && g.vintages == f.vintages);
        assert(demand(g, outcome) == demand(f, outcome) + amount && count(g, outcome) == count(f, outcome) + 1);
        assert(demand(g, 1 - outcome) == demand(f, 1 - outcome) && count(g, 1 - outcome) == count(f, 1 - outcome));
        OpenSettler.Position memory p = settler.positionWord(id);
        assert(p.owner == sender && p.vintage == f.vintages && p.offeredThrough == demand(g, outcome));
        assert(p.flags == 0);
        assert(uint32(id) >> 1 == count(f, outcome) && id & 1 == outcome);
    }

    /// The first entry of a block, after a vintage that is finalized, begins the next one with nothing else offered in it.
    /// @custom:theorem stock.enter.begins
    /// @custom:bounds no vintage open and no ration parked; fewer than 2^24 - 1 vintages begun; no more than 2^31 positions
    /// @custom:slow 600
    function check_enter_begins(address sender, uint256 marketId, uint8 outcome, uint256 amount) public {
        OpenSettler.Flow memory f = settler.flow(marketId);
        vm.assume(f.vintageBlock == 0 && f.demandUp == 0 && f.demandDown == 0 && block.number != 0);
        vm.assume(f.vintages < type(uint24).max && count(f, 0) <= 1 << 31 && count(f, 1) <= 1 << 31);
        vm.prank(sender);
        uint256 id = settler.enter(marketId, outcome, amount);
        OpenSettler.Flow memory g = settler.flow(marketId);
        assert(g.vintageBlock == block.number && g.vintages == f.vintages + 1);
        assert(demand(g, outcome) == amount && count(g, outcome) == count(f, outcome) + 1);
        assert(demand(g, 1 - outcome) == 0 && count(g, 1 - outcome) == count(f, 1 - outcome));
        assert(settler.positionWord(id).vintage == g.vintages);
    }

    /// An outcome there is not, an amount out of bounds, 2^64 of demand and 2^31 positions are refused.
    /// @custom:theorem stock.enter.refuses
    /// @custom:bounds in a vintage begun by this block
    function check_enter_refusesBeyond(address sender, uint256 marketId, uint8 outcome, uint256 amount) public {
        OpenSettler.Flow memory f = settler.flow(marketId);
        vm.assume(f.vintageBlock == block.number && block.number != 0);
        vm.assume(amount <= type(uint128).max);
        vm.assume(
            outcome > 1 || demand(f, outcome) + amount > type(uint64).max || count(f, outcome) == 1 << 31
                || amount < settler.terms(marketId).minEntry || amount > settler.terms(marketId).maxEntry
        );
        vm.prank(sender);
        try settler.enter(marketId, outcome, amount) {
            assert(false);
        } catch {}
    }
}
