// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {Handler} from "./Handler.sol";

/// Random sequences of calls, on a token that calls its receivers and on one that returns without paying. One invariant does
/// all the checking, since each would run a separate campaign. `FOUNDRY_PROFILE=long` makes a million calls and more.
abstract contract Invariants is Base {
    Handler private handler;

    function start(string memory tokenArtifact) internal {
        handler = new Handler(tokenArtifact);
        targetContract(address(handler));
        bytes4[] memory actions = new bytes4[](24);
        actions[0] = handler.passBlocks.selector;
        actions[1] = handler.passTime.selector;
        actions[2] = handler.freeze.selector;
        actions[3] = handler.pauseToken.selector;
        actions[4] = handler.pauseEntries.selector;
        actions[5] = handler.plot.selector;
        actions[6] = handler.createMarket.selector;
        actions[7] = handler.enterNow.selector;
        actions[8] = handler.enterSigned.selector;
        actions[9] = handler.finalize.selector;
        actions[10] = handler.resolveOne.selector;
        actions[11] = handler.voidOne.selector;
        actions[12] = handler.claimOne.selector;
        actions[13] = handler.withdrawOne.selector;
        actions[14] = handler.deliverMany.selector;
        actions[15] = handler.claimResidueOne.selector;
        actions[16] = handler.sweep.selector;
        actions[17] = handler.transferOne.selector;
        // These more often than the rest.
        actions[18] = handler.enterNow.selector;
        actions[19] = handler.enterNow.selector;
        actions[20] = handler.passBlocks.selector;
        actions[21] = handler.deliverMany.selector;
        actions[22] = handler.resolveOne.selector;
        actions[23] = handler.passTime.selector;
        targetSelector(FuzzSelector(address(handler), actions));
    }

    function invariant_everythingOwedIsHeldAndEveryBookAddsUp() external {
        handler.checkSolvency();
        if (handler.calls() % 32 == 0) handler.audit();
    }

    function afterInvariant() external {
        handler.audit();
    }
}

contract InvariantsWithAHookTokenTest is Invariants {
    function setUp() external {
        start("HookToken");
    }
}

contract InvariantsOnUSDGTest is Invariants {
    function setUp() external {
        start("LocalUSDG");
    }
}
