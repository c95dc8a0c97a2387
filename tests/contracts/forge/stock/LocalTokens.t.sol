// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";
import {LocalUSDG} from "../../../../contracts/local/LocalUSDG.sol";
import {IERC3009} from "../../../../contracts/lib/IERC3009.sol";
import {ContractWallet} from "./HostileTokens.sol";
import {StockBase} from "./StockBase.sol";

/// The local tokens do what the real ones do. Placed by their runtime code alone, as a genesis file does.
contract LocalTokensTest is StockBase {
    uint256 private constant KEY = 0xB0B5;
    address private constant HOME = address(0x5fc5360D0400a0Fd4f2af552ADD042D716F1d168);

    address private signer;

    function setUp() public override {
        super.setUp();
        signer = vm.addr(KEY);
        vm.etch(HOME, address(token).code);
        token = LocalToken(HOME);
        token.mint(signer, 100e6);
    }

    function test_token_isItselfWithoutAConstructor() external view {
        bool usdc = isUsdc();
        vm.assertEq(token.name(), usdc ? "USD Coin" : "Global Dollar");
        vm.assertEq(token.symbol(), usdc ? "USDC" : "USDG");
        vm.assertEq(token.version(), usdc ? "2" : "1");
        vm.assertEq(token.decimals(), 6);
        vm.assertEq(token.totalSupply(), 100e6);
        vm.assertEq(
            token.DOMAIN_SEPARATOR(),
            keccak256(
                abi.encode(
                    keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                    keccak256(bytes(token.name())),
                    keccak256(bytes(token.version())),
                    block.chainid,
                    HOME
                )
            )
        );
        (bool ok,) = HOME.staticcall(abi.encodeWithSignature("eip712Domain()"));
        vm.assertFalse(ok);
    }

    function test_token_movesAsErc20(uint256 amount, uint256 allowed) external {
        amount = bound(amount, 0, 200e6);
        vm.prank(signer);
        token.approve(ALICE, allowed);
        vm.assertEq(token.allowance(signer, ALICE), allowed);
        if (allowed < amount) {
            vm.expectRevert(
                abi.encodeWithSelector(LocalToken.InsufficientAllowance.selector, signer, ALICE, allowed, amount)
            );
        } else if (amount > 100e6) {
            vm.expectRevert(abi.encodeWithSelector(LocalToken.InsufficientBalance.selector, signer, 100e6, amount));
        }
        vm.prank(ALICE);
        token.transferFrom(signer, BOB, amount);
        if (allowed < amount || amount > 100e6) return;
        vm.assertEq(token.balanceOf(BOB), amount);
        vm.assertEq(token.allowance(signer, ALICE), allowed == type(uint256).max ? allowed : allowed - amount);
        vm.prank(BOB);
        token.transfer(BOB, amount);
        vm.assertEq(token.balanceOf(BOB), amount);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.ZeroRecipient.selector));
        token.transfer(address(0), 0);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.ZeroRecipient.selector));
        token.mint(address(0), 1);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.SupplyOverflow.selector, 100e6));
        token.mint(BOB, type(uint256).max / 2);
    }

    function test_token_freezeStopsBothWaysAndKeepsTheBalance() external {
        token.freeze(signer);
        vm.assertTrue(token.isFrozen(signer));
        vm.assertEq(token.balanceOf(signer), 100e6);
        bytes memory why = abi.encodeWithSelector(LocalToken.AccountFrozen.selector, signer);
        vm.expectRevert(why);
        vm.prank(signer);
        token.transfer(BOB, 1);
        token.mint(BOB, 1);
        vm.expectRevert(why);
        vm.prank(BOB);
        token.transfer(signer, 1);
        token.unfreeze(signer);
        vm.prank(signer);
        token.transfer(BOB, 100e6);
    }

    function test_token_pauseStopsEverything() external {
        bytes memory signature = sign(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), signer, BOB);
        bytes memory cancellation = signCancel(signer);
        token.setPaused(true);
        bytes memory why = abi.encodeWithSelector(LocalToken.TokenPaused.selector);
        vm.expectRevert(why);
        vm.prank(signer);
        token.transfer(BOB, 1);
        vm.expectRevert(why);
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        vm.expectRevert(why);
        token.cancelAuthorization(signer, "n", cancellation);
        token.setPaused(false);
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
    }

    function test_token_authorizationsPayInBothForms() external {
        bytes memory signature = sign(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), signer, BOB);
        (uint8 v, bytes32 r, bytes32 s) = split(signature);
        uint256 state = vm.snapshotState();
        vm.expectEmit(true, true, true, true, HOME);
        emit IERC3009.AuthorizationUsed(signer, "n");
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", v, r, s);
        vm.assertEq(token.balanceOf(BOB), 5e6);
        vm.assertTrue(token.authorizationState(signer, "n"));
        vm.revertToState(state);
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        vm.assertEq(token.balanceOf(BOB), 5e6);

        vm.revertToState(state);
        signature = sign(token.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), signer, BOB);
        (v, r, s) = split(signature);
        bytes memory notPayee = abi.encodeWithSelector(LocalToken.CallerIsNotPayee.selector, address(this), BOB);
        vm.expectRevert(notPayee);
        token.receiveWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", v, r, s);
        vm.expectRevert(notPayee);
        token.receiveWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        vm.prank(BOB);
        token.receiveWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", v, r, s);
        vm.assertEq(token.balanceOf(BOB), 5e6);
    }

    function test_token_acceptsContractWalletsInTheBytesForm() external {
        address wallet = address(new ContractWallet(signer));
        token.mint(wallet, 5e6);
        token.transferWithAuthorization(
            wallet, BOB, 5e6, 0, FREEZE, "n", sign(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), wallet, BOB)
        );
        vm.assertEq(token.balanceOf(BOB), 5e6);
    }

    function test_token_refusesWrongSignaturesAndTimes() external {
        bytes memory signature = sign(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), signer, BOB);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.InvalidSignature.selector, signer));
        token.transferWithAuthorization(signer, CAROL, 5e6, 0, FREEZE, "n", signature);
        vm.warp(FREEZE);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.AuthorizationExpired.selector, FREEZE, FREEZE));
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.AuthorizationNotYetValid.selector, FREEZE, FREEZE));
        token.transferWithAuthorization(signer, BOB, 5e6, FREEZE, FREEZE + 1, "n", signature);
    }

    /// USDC reverts on a spent authorization; USDG emits and returns, and nothing is paid.
    function test_token_spentAuthorizationsPayNothing(bool cancelled) external {
        bytes memory signature = sign(token.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), signer, BOB);
        (uint8 v, bytes32 r, bytes32 s) = split(signCancel(signer));
        if (cancelled) {
            vm.expectEmit(true, true, true, true, HOME);
            emit IERC3009.AuthorizationCanceled(signer, "n");
            token.cancelAuthorization(signer, "n", v, r, s);
        } else {
            token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        }
        uint256 had = token.balanceOf(BOB);
        expectSpent();
        token.transferWithAuthorization(signer, BOB, 5e6, 0, FREEZE, "n", signature);
        expectSpent();
        token.cancelAuthorization(signer, "n", v, r, s);
        vm.assertEq(token.balanceOf(BOB), had);
    }

    function expectSpent() private {
        if (isUsdc()) {
            vm.expectRevert(
                abi.encodeWithSelector(LocalUSDC.AuthorizationUsedOrCanceled.selector, signer, bytes32("n"))
            );
        } else {
            vm.expectEmit(true, true, true, true, HOME);
            emit LocalUSDG.AuthorizationAlreadyUsed(signer, "n");
        }
    }

    function isUsdc() internal pure virtual returns (bool) {
        return true;
    }

    function sign(bytes32 typeHash, address from, address to) private view returns (bytes memory) {
        return signed(keccak256(abi.encode(typeHash, from, to, 5e6, 0, FREEZE, bytes32("n"))));
    }

    function signCancel(address from) private view returns (bytes memory) {
        return signed(keccak256(abi.encode(token.CANCEL_AUTHORIZATION_TYPEHASH(), from, bytes32("n"))));
    }

    function signed(bytes32 structHash) private view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(KEY, keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), structHash)));
        return abi.encodePacked(r, s, v);
    }

    function split(bytes memory signature) private pure returns (uint8 v, bytes32 r, bytes32 s) {
        assembly ("memory-safe") {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
            v := byte(0, mload(add(signature, 0x60)))
        }
    }
}

contract LocalUSDGTest is LocalTokensTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }

    function isUsdc() internal pure override returns (bool) {
        return false;
    }
}
