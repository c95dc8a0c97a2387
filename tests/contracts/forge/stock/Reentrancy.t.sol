// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {HookToken, Reenterer} from "./HostileTokens.sol";
import {StockBase} from "./StockBase.sol";

/// A token that calls its payers and payees gains nothing: no function that writes can be called within another.
contract ReentrancyTest is StockBase {
    Reenterer private reenterer;
    uint256 private market;
    uint256 private own;

    function tokenName() internal pure override returns (string memory) {
        return "HookToken";
    }

    function setUp() public override {
        super.setUp();
        market = create();
        reenterer = new Reenterer();
        fund(address(reenterer), 1000e6);
        own = enter(address(reenterer), market, UP, 400e6);
        nextBlock();
        HookToken(address(token)).setHooked(address(reenterer), true);
    }

    function test_reentrancy_noWriteWithinAnEntry(uint8 which) external {
        tryWithin(which, abi.encodeCall(markets.enter, (market, DOWN, 5e6)));
        vm.assertEq(markets.liabilities(), 20e6 + 400e6 + 5e6);
    }

    function test_reentrancy_noWriteWithinAPayment(uint8 which) external {
        tryWithin(which, abi.encodeCall(markets.withdrawRefund, (own)));
        vm.assertEq(markets.liabilities(), 20e6 + 290e6);
    }

    /// While a payer's money is on its way in, or a payee's on its way out, the views never say we owe more than we hold.
    function test_reentrancy_viewsWithinAreSolvent() external {
        SolvencyProbe probe = new SolvencyProbe(address(markets), address(token));
        reenterer.set(address(probe), abi.encodeCall(probe.check, ()));
        vm.prank(address(reenterer));
        markets.enter(market, DOWN, 5e6);
        vm.assertTrue(reenterer.succeeded());
        markets.withdrawRefund(own);
        vm.assertTrue(reenterer.succeeded());
        vm.assertEq(reenterer.calls(), 2);
    }

    function tryWithin(uint8 which, bytes memory outer) private {
        reenterer.set(address(markets), call(which));
        vm.prank(address(reenterer));
        (bool ok,) = address(markets).call(outer);
        vm.assertTrue(ok);
        vm.assertEq(reenterer.calls(), 1);
        vm.assertFalse(reenterer.succeeded());
        vm.assertEq(
            reenterer.answer(), abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)
        );
        assertSolvent();
    }

    function call(uint8 which) private view returns (bytes memory) {
        uint256[] memory ids = new uint256[](1);
        ids[0] = own;
        which %= 13;
        if (which == 0) return abi.encodeCall(markets.enter, (market, UP, 1e6));
        if (which == 1) return abi.encodeCall(markets.withdrawRefund, (own));
        if (which == 2) return abi.encodeCall(markets.claim, (own));
        if (which == 3) return abi.encodeCall(markets.deliver, (ids));
        if (which == 4) return abi.encodeCall(markets.finalizeVintage, (market));
        if (which == 5) return abi.encodeCall(markets.resolve, (market, UP));
        if (which == 6) return abi.encodeCall(markets.voidMarket, (market));
        if (which == 7) return abi.encodeCall(markets.claimResidue, (market));
        if (which == 8) return abi.encodeCall(markets.sweepFees, ());
        if (which == 9) return abi.encodeCall(markets.setPaused, (true));
        if (which == 10) return abi.encodeCall(markets.transferPosition, (own, ALICE));
        if (which == 11) return abi.encodeCall(markets.create, (terms()));
        return abi.encodeCall(markets.enterWithAuthorization, (ALICE, market, UP, 1e6, 0, FREEZE, 0, ""));
    }
}

contract SolvencyProbe {
    address private immutable markets;
    address private immutable token;

    constructor(address markets_, address token_) {
        markets = markets_;
        token = token_;
    }

    function check() external view {
        require(HookToken(token).balanceOf(markets) >= ILiabilities(markets).liabilities());
    }
}

interface ILiabilities {
    function liabilities() external view returns (uint256);
}
