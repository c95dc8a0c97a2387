// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC3009} from "../../../../contracts/lib/IERC3009.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";
import {LocalUSDG} from "../../../../contracts/local/LocalUSDG.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/settlement/SettlementWallet.sol";
import {Base} from "../Base.sol";
import {OzToken} from "./OzToken.sol";

/// What the three tokens have in common beside EIP-3009.
interface ITestToken is IERC3009 {
    function mint(address to, uint256 value) external;
    function freeze(address account) external;
    function unfreeze(address account) external;
    function DOMAIN_SEPARATOR() external view returns (bytes32);
    function cancelAuthorization(address authorizer, bytes32 nonce, bytes calldata signature) external;
}

/// A wallet contract: whatever its owner's key signs is its signature, until it says no.
contract SmartWallet {
    address public immutable owner;
    bool public revoked;

    constructor(address owner_) {
        owner = owner_;
    }

    function revoke() external {
        revoked = true;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (bytes32 r, bytes32 s) = abi.decode(signature[:64], (bytes32, bytes32));
        bool valid = !revoked && ecrecover(hash, uint8(signature[64]), r, s) == owner;
        return valid ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

/// A settlement wallet with its roles, one feed and three markets, on one of three tokens.
abstract contract WalletBase is Base {
    uint256 internal constant T0 = 1_800_000_000;
    uint256 internal constant CLOSE = T0 + 1 days;
    uint256 internal constant START = T0 + 1 hours;
    uint32 internal constant MAX_AGE = 1 hours;
    uint32 internal constant VOID_DELAY = 3 days;
    int256 internal constant TARGET = 100e8;
    uint256 internal constant BOUND_ONLY = 3009;

    bytes32 internal constant EARLY = keccak256("early-threshold");
    bytes32 internal constant LATE = keccak256("threshold");
    bytes32 internal constant RANGED = keccak256("range");
    bytes32 internal constant UPDOWN = keccak256("direction");

    uint8 internal constant YES = 0;
    uint8 internal constant NO = 1;

    bytes32 internal constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 internal constant CANCEL_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");

    address internal constant OWNER = address(0x0E);
    address internal constant TREASURY = address(0x7E);
    address internal constant LISTER = address(0x11);
    address internal constant RELAYER = address(0x12);
    address internal constant GUARDIAN = address(0x13);
    address internal constant STRANGER = address(0x99);

    uint256 internal constant ALICE_KEY = 0xA11CE;
    uint256 internal constant BOB_KEY = 0xB0B;
    uint256 internal constant CAROL_KEY = 0xCA401;

    ITestToken internal token;
    LocalFeed internal feed;
    SettlementWallet internal wallet;
    address internal alice = vm.addr(ALICE_KEY);
    address internal bob = vm.addr(BOB_KEY);
    address internal carol = vm.addr(CAROL_KEY);
    uint256 private _serial;

    function newToken() internal virtual returns (address);

    function setUp() public virtual {
        vm.warp(T0);
        token = ITestToken(newToken());
        feed = new LocalFeed();
        wallet = new SettlementWallet(address(token), OWNER, TREASURY);
        vm.startPrank(OWNER);
        wallet.setRole(wallet.LISTER(), LISTER, true);
        wallet.setRole(wallet.RELAYER(), RELAYER, true);
        wallet.setRole(wallet.GUARDIAN(), GUARDIAN, true);
        vm.stopPrank();
        list(EARLY, thresholdSpec(true));
        list(LATE, thresholdSpec(false));
        list(RANGED, rangeSpec());
        list(UPDOWN, directionSpec());
        token.mint(alice, 1e16);
        token.mint(bob, 1e16);
        token.mint(carol, 1e16);
    }

    // Markets

    function thresholdSpec(bool early) internal view returns (ISettlementWallet.MarketSpec memory s) {
        s = plainSpec();
        s.target = TARGET;
        s.earlyResolvable = early;
    }

    /// Buckets under 50, 50 to 100, 100 to 200, 200 and over.
    function rangeSpec() internal view returns (ISettlementWallet.MarketSpec memory s) {
        s = plainSpec();
        s.kind = 1;
        s.outcomes = 4;
        s.bounds = new int256[](3);
        (s.bounds[0], s.bounds[1], s.bounds[2]) = (50e8, 100e8, 200e8);
    }

    function directionSpec() internal view returns (ISettlementWallet.MarketSpec memory s) {
        s = plainSpec();
        s.kind = 2;
        s.startAt = uint64(START);
    }

    function plainSpec() private view returns (ISettlementWallet.MarketSpec memory s) {
        s.feed = address(feed);
        s.opensAt = uint64(T0);
        s.closesAt = uint64(CLOSE);
        s.maxAge = MAX_AGE;
        s.voidDelay = VOID_DELAY;
        s.feeBps = 200;
        s.outcomes = 2;
        s.virtualLiquidity = 1_000e6;
    }

    function list(bytes32 id, ISettlementWallet.MarketSpec memory s) internal {
        vm.prank(LISTER);
        wallet.list(id, s, '{"slug":"m"}');
    }

    // Payments

    function intent(bytes32 marketId, uint8 outcome, uint256 amount, address payer)
        internal
        returns (ISettlementWallet.Intent memory i)
    {
        (i.marketId, i.outcome, i.amount, i.wallet) = (marketId, outcome, amount, payer);
        i.idemHash = keccak256(abi.encode("key", ++_serial));
        i.builder = address(0xB1);
        i.ref = "ref";
    }

    function authorize(uint256 key, ISettlementWallet.Intent memory i, bytes32 nonce)
        internal
        view
        returns (ISettlementWallet.Authorization memory)
    {
        return authorize(key, i, nonce, 0);
    }

    function authorize(uint256 key, ISettlementWallet.Intent memory i, bytes32 nonce, uint256 validAfter)
        internal
        view
        returns (ISettlementWallet.Authorization memory a)
    {
        a.validAfter = validAfter;
        a.validBefore = T0 + 365 days;
        a.nonce = nonce;
        bytes32 structHash = keccak256(
            abi.encode(TRANSFER_TYPEHASH, i.wallet, address(wallet), i.amount, validAfter, a.validBefore, nonce)
        );
        a.signature = signed(key, structHash);
    }

    function signed(uint256 key, bytes32 structHash) internal view returns (bytes memory) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function freshNonce() internal returns (bytes32) {
        return keccak256(abi.encode("nonce", ++_serial));
    }

    /// The standard flow: a random nonce, sent by the relayer.
    function settle(bytes32 marketId, uint8 outcome, uint256 amount, uint256 key) internal returns (uint256 stakeId) {
        ISettlementWallet.Intent memory i = intent(marketId, outcome, amount, vm.addr(key));
        ISettlementWallet.Authorization memory a = authorize(key, i, freshNonce());
        vm.prank(RELAYER);
        return wallet.settle(i, a);
    }

    /// Somebody hands the authorization to the token before the relayer does.
    function frontRun(ISettlementWallet.Intent memory i, ISettlementWallet.Authorization memory a) internal {
        vm.prank(STRANGER);
        token.transferWithAuthorization(
            i.wallet, address(wallet), i.amount, a.validAfter, a.validBefore, a.nonce, a.signature
        );
    }

    function cancel(uint256 key, bytes32 nonce) internal {
        token.cancelAuthorization(
            vm.addr(key), nonce, signed(key, keccak256(abi.encode(CANCEL_TYPEHASH, vm.addr(key), nonce)))
        );
    }

    // Looking

    function solvent() internal view {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertGe(token.balanceOf(address(wallet)), open + unpaid + fees, "insolvent");
    }

    function liability() internal view returns (uint256) {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        return open + unpaid + fees;
    }

    function ids(uint256 a) internal pure returns (uint256[] memory list_) {
        list_ = new uint256[](1);
        list_[0] = a;
    }

    function ids(uint256 a, uint256 b) internal pure returns (uint256[] memory list_) {
        list_ = new uint256[](2);
        (list_[0], list_[1]) = (a, b);
    }

    function ids(uint256 a, uint256 b, uint256 c) internal pure returns (uint256[] memory list_) {
        list_ = new uint256[](3);
        (list_[0], list_[1], list_[2]) = (a, b, c);
    }
}

abstract contract OnUsdc is WalletBase {
    function newToken() internal virtual override returns (address) {
        return address(new LocalUSDC());
    }
}

abstract contract OnUsdg is WalletBase {
    function newToken() internal override returns (address) {
        return address(new LocalUSDG());
    }
}

abstract contract OnOpenZeppelin is WalletBase {
    function newToken() internal override returns (address) {
        return address(new OzToken());
    }
}
