// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {ContractWallet, LyingToken} from "./HostileTokens.sol";
import {SignedEntries} from "./SignedEntries.sol";

contract EnterWithAuthorizationTest is SignedEntries {
    uint256 internal market;

    function setUp() public virtual override {
        super.setUp();
        market = create();
    }

    function test_enterWithAuthorization_booksForTheSignerWhoeverSends(address sender, uint256 amount, bytes32 salt)
        external
    {
        amount = bound(amount, 1, 1e14);
        Entry memory e = entry(market, UP, amount);
        e.salt = salt;
        token.mint(e.from, amount);
        bytes memory signature = sign(e, KEY);
        vm.prank(sender);
        uint256 id = send(e, signature);
        vm.assertEq(markets.position(id).owner, e.from);
        vm.assertEq(markets.position(id).offered, amount);
        vm.assertEq(token.balanceOf(e.from), 0);
        vm.assertTrue(token.authorizationState(e.from, markets.entryNonce(market, UP, amount, salt)));
    }

    function test_entryNonce_isTheDocumentedHash(uint256 id, uint8 outcome, uint256 amount, bytes32 salt)
        external
        view
    {
        bytes32 typeHash = keccak256("Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)");
        vm.assertEq(markets.ENTER_TYPEHASH(), typeHash);
        vm.assertEq(
            markets.entryNonce(id, outcome, amount, salt),
            keccak256(abi.encode(typeHash, block.chainid, address(markets), id, outcome, amount, salt))
        );
    }

    /// The relayer of a signed entry can change nothing in it.
    function test_enterWithAuthorization_failsIfAnythingIsChanged(uint8 what) external {
        Entry memory e = entry(market, UP, 5 * ONE);
        fund(e.from, 100 * ONE);
        fund(ALICE, 100 * ONE);
        create();
        bytes memory signature = sign(e, KEY);
        what = uint8(bound(what, 0, 6));
        if (what == 0) e.marketId = 2;
        else if (what == 1) e.outcome = DOWN;
        else if (what == 2) e.amount += 1;
        else if (what == 3) e.salt = bytes32(uint256(1));
        else if (what == 4) e.validAfter += 1;
        else if (what == 5) e.validBefore += 1;
        else e.from = ALICE;
        vm.expectRevert(abi.encodeWithSelector(LocalToken.InvalidSignature.selector, e.from));
        send(e, signature);
    }

    function test_enterWithAuthorization_failsOnAnotherChain() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 5 * ONE);
        bytes memory signature = sign(e, KEY);
        vm.chainId(4242);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.InvalidSignature.selector, e.from));
        send(e, signature);
    }

    function test_enterWithAuthorization_failsTheSecondTime() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 50 * ONE);
        bytes memory signature = sign(e, KEY);
        send(e, signature);
        vm.expectRevert(spent(e));
        send(e, signature);
        vm.assertEq(markets.liabilities(), 25 * ONE);
    }

    function test_enterWithAuthorization_failsOnceCancelled() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 50 * ONE);
        bytes memory signature = sign(e, KEY);
        cancel(e, KEY);
        vm.expectRevert(spent(e));
        send(e, signature);
    }

    function test_enterWithAuthorization_failsOutsideItsTime() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 50 * ONE);
        e.validAfter = START;
        bytes memory signature = sign(e, KEY);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.AuthorizationNotYetValid.selector, START, START));
        send(e, signature);
        e.validAfter = 0;
        e.validBefore = START;
        signature = sign(e, KEY);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.AuthorizationExpired.selector, START, START));
        send(e, signature);
    }

    function test_enterWithAuthorization_acceptsAContractWallet() external {
        Entry memory e = entry(market, DOWN, 5 * ONE);
        e.from = address(new ContractWallet(vm.addr(KEY)));
        token.mint(e.from, 5 * ONE);
        bytes memory signature = sign(e, KEY + 1);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.InvalidSignature.selector, e.from));
        send(e, signature);
        uint256 id = send(e, sign(e, KEY));
        vm.assertEq(markets.position(id).owner, e.from);
    }

    /// The signature names this contract as payee, so it cannot be spent straight at the token.
    function test_enterWithAuthorization_cannotBeSpentElsewhere() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 5 * ONE);
        bytes memory signature = sign(e, KEY);
        bytes32 nonce = markets.entryNonce(market, UP, e.amount, e.salt);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.CallerIsNotPayee.selector, address(this), address(markets)));
        token.receiveWithAuthorization(
            e.from, address(markets), e.amount, e.validAfter, e.validBefore, nonce, signature
        );
        vm.expectRevert(abi.encodeWithSelector(LocalToken.InvalidSignature.selector, e.from));
        token.transferWithAuthorization(
            e.from, address(markets), e.amount, e.validAfter, e.validBefore, nonce, signature
        );
    }

    function test_enterWithAuthorization_keepsTheRulesOfEntering() external {
        Entry memory e = entry(market, UP, 5 * ONE);
        token.mint(e.from, 5 * ONE);
        bytes memory signature = sign(e, KEY);
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.EntriesArePaused.selector, GUARDIAN));
        send(e, signature);
        vm.prank(GUARDIAN);
        markets.setPaused(false);
        vm.warp(FREEZE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketFrozen.selector, market, FREEZE, FREEZE));
        send(e, signature);
    }

    function spent(Entry memory e) internal view returns (bytes memory) {
        bytes32 nonce = markets.entryNonce(e.marketId, e.outcome, e.amount, e.salt);
        return abi.encodeWithSelector(IVestedMarkets.AuthorizationSpent.selector, e.from, nonce);
    }
}

contract EnterWithAuthorizationOnUSDGTest is EnterWithAuthorizationTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }
}

contract EnterWithAuthorizationWithALyingTokenTest is SignedEntries {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    function test_enterWithAuthorization_failsUnlessTheBalanceRoseByTheAmount() external {
        Entry memory e = entry(create(), UP, ONE);
        token.mint(e.from, 10 * ONE);
        bytes memory signature = sign(e, KEY);
        LyingToken(address(token)).setMode(LyingToken.Mode.Silent);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.PaymentNotReceived.selector, e.from, ONE, 0));
        send(e, signature);
        LyingToken(address(token)).setMode(LyingToken.Mode.Less);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.PaymentNotReceived.selector, e.from, ONE, ONE - 1));
        send(e, signature);
    }
}
