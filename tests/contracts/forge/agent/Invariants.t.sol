// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";
import {LocalUSDG} from "../../../../contracts/local/LocalUSDG.sol";
import {Base} from "../Base.sol";
import {OzToken} from "./OzToken.sol";
import {World} from "./World.sol";

/// Chooses a world and lets something happen in it.
contract Worlds is Base {
    World[] public worlds;

    constructor(bool honest) {
        worlds.push(new World(address(new LocalUSDC()), block.timestamp, honest));
        worlds.push(new World(address(new LocalUSDG()), block.timestamp, honest));
        worlds.push(new World(address(new OzToken()), block.timestamp, honest));
        worlds.push(new World(address(new PickyToken()), block.timestamp, honest));
        for (uint256 k; k < worlds.length; ++k) {
            for (uint256 j = 1; j < 4; ++j) {
                worlds[k].list(uint256(keccak256(abi.encode(k, j))) & ~uint256(1));
            }
        }
    }

    modifier after_(uint256 w) {
        World world = worlds[w % worlds.length];
        vm.warp(world.time());
        _;
        world.check();
    }

    function chosen(uint256 w) private view returns (World) {
        return worlds[w % worlds.length];
    }

    function list(uint256 w, uint256 seed) external after_(w) {
        chosen(w).list(mix(seed));
    }

    /// Two at a time, so that there is something to settle.
    function stake(uint256 w, uint256 seed) external after_(w) {
        chosen(w).stake(mix(seed));
        chosen(w).stake(mix(~seed));
    }

    function stakeAgain(uint256 w, uint256 seed) external after_(w) {
        chosen(w).stake(mix(~seed));
        chosen(w).stake(mix(mix(seed)));
    }

    function frontRun(uint256 w, uint256 seed) external after_(w) {
        chosen(w).frontRun(mix(seed));
    }

    function creditPending(uint256 w, uint256 seed) external after_(w) {
        chosen(w).creditPending(mix(seed));
    }

    function creditLie(uint256 w, uint256 seed) external after_(w) {
        chosen(w).creditLie(mix(seed));
    }

    function cancel(uint256 w, uint256 seed) external after_(w) {
        chosen(w).cancel(mix(seed));
    }

    function observe(uint256 w, uint256 seed) external after_(w) {
        chosen(w).observe(mix(seed));
    }

    function publish(uint256 w, uint256 seed) external after_(w) {
        chosen(w).publish(mix(seed));
    }

    function putOff(uint256 w, uint256 seed) external after_(w) {
        chosen(w).putOff(mix(seed));
    }

    /// Time is one for all; a round everywhere, now and then as old as the time that went by.
    function wait(uint256 seed) external after_(seed) {
        seed = mix(seed);
        for (uint256 k; k < worlds.length; ++k) {
            worlds[k].wait(seed);
            if (seed % 8 == 0) continue;
            worlds[k].observe(seed);
            worlds[k].publish(seed);
        }
    }

    function settle(uint256 w, uint256 seed, bool find) external after_(w) {
        chosen(w).settle(mix(seed), find);
    }

    function pay(uint256 w, uint256 seed) external after_(w) {
        chosen(w).pay(mix(seed));
    }

    function payAgain(uint256 w, uint256 seed) external after_(w) {
        chosen(w).pay(mix(~seed));
    }

    function sweep(uint256 w) external after_(w) {
        chosen(w).sweep();
    }

    function freeze(uint256 w, uint256 seed, bool thaw) external after_(w) {
        chosen(w).freeze(mix(seed), thaw || seed % 3 != 0);
    }

    function pause(uint256 w, uint256 seed) external after_(w) {
        chosen(w).pause(mix(seed));
    }

    function safe(uint256 w, uint256 seed) external after_(w) {
        chosen(w).safe(mix(seed));
    }

    function meddle(uint256 w, uint256 seed) external after_(w) {
        chosen(w).meddle(mix(seed));
    }

    function donate(uint256 w, uint256 seed) external after_(w) {
        chosen(w).donate(mix(seed));
    }

    function count() external view returns (uint256) {
        return worlds.length;
    }

    /// Fuzzers like small numbers; every part of the seed is used.
    function mix(uint256 seed) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed)));
    }
}

/// Accounts may refuse to be paid: a revert inside the transfer, as a freeze is, but the account's own doing.
contract PickyToken is LocalUSDC {
    function _move(address from, address to, uint256 value) internal override {
        super._move(from, to, value);
        // Every third second the payees with an odd address do not want money.
        if (block.timestamp % 3 == 0 && uint160(to) % 2 == 1) revert("refused");
    }
}

/// After every call of a random sequence: balance >= liabilities(), and every unit accounted for; one stake a payment, one payment a stake,
/// no market paid beyond its pool. Four tokens, payees frozen and refusing, every key adversarial.
abstract contract SettlementInvariants is Base {
    Worlds private worlds;

    function start(bool honest) internal {
        vm.warp(1_800_000_000);
        worlds = new Worlds(honest);
        targetContract(address(worlds));
    }

    function everyUnitIsAccountedFor() internal view {
        for (uint256 k; k < worlds.count(); ++k) {
            worlds.worlds(k).check();
        }
    }

    /// At the end of each sequence: the totals are what the single stakes add up to; and the paths that were taken, on the console.
    function afterInvariant() public view {
        address console = 0x000000000000000000636F6e736F6c652e6c6f67;
        string[21] memory paths = [
            "listed",
            "not listed",
            "settled",
            "settled bound",
            "settled in the receive form",
            "front-run",
            "given away",
            "credited",
            "credited as a refund",
            "credited a lie",
            "unbooked money was gone",
            "cancelled",
            "published",
            "resolved",
            "resolved by a round",
            "voided",
            "condemned",
            "paid",
            "claimed",
            "swept",
            "refused at a door"
        ];
        for (uint256 k; k < paths.length; ++k) {
            uint256 sum;
            for (uint256 j; j < worlds.count(); ++j) {
                sum += worlds.worlds(j).seen(paths[k]);
            }
            (bool ok,) = console.staticcall(abi.encodeWithSignature("log(string,uint256)", paths[k], sum));
            vm.assertTrue(ok);
        }
        for (uint256 k; k < worlds.count(); ++k) {
            worlds.worlds(k).recount();
        }
    }
}

/// With an honest creditor, unbooked money is also its payer's: every payment that is here can be credited, and nothing else.
contract InvariantsWithAnHonestCreditor is SettlementInvariants {
    function setUp() public {
        start(true);
    }

    function invariant_unbookedMoneyIsItsPayers() public view {
        everyUnitIsAccountedFor();
    }
}

/// With a dishonest one, unbooked money is lost, and nothing of what is booked.
contract InvariantsWithADishonestCreditor is SettlementInvariants {
    function setUp() public {
        start(false);
    }

    function invariant_whatIsBookedIsCovered() public view {
        everyUnitIsAccountedFor();
    }
}
