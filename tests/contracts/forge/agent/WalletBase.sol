// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AgentLister} from "../../../../contracts/agent/AgentLister.sol";
import {FeedResolver} from "../../../../contracts/agent/FeedResolver.sol";
import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/feeds/ObservationFeed.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {IERC3009} from "../../../../contracts/lib/IERC3009.sol";
import {Pauser} from "../../../../contracts/lib/Pauser.sol";
import {Base} from "../Base.sol";
import {OzToken} from "./OzToken.sol";

/// The tokens' common interface apart from EIP-3009.
interface ITestToken is IERC3009 {
    function mint(address to, uint256 value) external;
    function freeze(address account) external;
    function unfreeze(address account) external;
    function DOMAIN_SEPARATOR() external view returns (bytes32);
    function cancelAuthorization(address authorizer, bytes32 nonce, bytes calldata signature) external;
}

interface VmCreate {
    function computeCreateAddress(address deployer, uint256 nonce) external pure returns (address);
    function getNonce(address account) external view returns (uint64);
}

/// A wallet contract: signatures of its owner's key are its own until it rejects them.
contract SmartWallet {
    address public immutable owner;
    bool public revoked;

    constructor(address owner_) {
        owner = owner_;
    }

    function revoke(bool revoked_) external {
        revoked = revoked_;
    }

    /// What follows the first 65 bytes is not looked at: such signatures may carry anything.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (bytes32 r, bytes32 s) = abi.decode(signature[:64], (bytes32, bytes32));
        bool valid = !revoked && ecrecover(hash, uint8(signature[64]), r, s) == owner;
        return valid ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}

/// The four contracts of the settlement wallet, wired as they are deployed.
struct Deployed {
    SettlementWallet wallet;
    FeedResolver resolver;
    AgentLister lister;
    Pauser pauser;
}

/// They know each other, so the later addresses are worked out beforehand.
abstract contract Deployer is Base {
    function deployAll(address token, address safe, address treasury, IAgentLister.Bounds memory bounds)
        internal
        returns (Deployed memory d)
    {
        uint64 nonce = VmCreate(address(vm)).getNonce(address(this));
        address resolverAt = VmCreate(address(vm)).computeCreateAddress(address(this), nonce + 1);
        address listerAt = VmCreate(address(vm)).computeCreateAddress(address(this), nonce + 2);
        address pauserAt = VmCreate(address(vm)).computeCreateAddress(address(this), nonce + 3);
        d.wallet = SettlementWallet(
            deploy("SettlementWallet", abi.encode(token, listerAt, resolverAt, pauserAt, safe, treasury))
        );
        d.resolver = FeedResolver(deploy("FeedResolver", abi.encode(d.wallet, listerAt)));
        d.lister = AgentLister(deploy("AgentLister", abi.encode(d.wallet, d.resolver, safe, bounds)));
        d.pauser = Pauser(deploy("Pauser", abi.encode(d.wallet, safe)));
    }
}

/// A settlement wallet with its lister, resolver and pauser, two feeds and four markets, on one of three tokens.
abstract contract WalletBase is Deployer {
    uint256 internal constant T0 = 1_800_000_000;
    uint256 internal constant CLOSE = T0 + 11 hours;
    uint256 internal constant START = T0 + 12 hours;
    uint256 internal constant END = T0 + 1 days;
    uint256 internal constant MARGIN = 60;
    uint32 internal constant MEMORY = 10 minutes;
    uint256 internal constant MEASURED_FROM = CLOSE + MARGIN + MEMORY;
    uint32 internal constant MAX_AGE = 1 hours;
    uint32 internal constant LAG = 120;
    uint32 internal constant DISPUTE = 1 hours;
    uint32 internal constant VOID_DELAY = 3 days;
    uint64 internal constant POT_CAP = 5e17;
    uint64 internal constant FEED_CAP = type(uint64).max;
    uint16 internal constant FEE_BPS = 200;
    int256 internal constant TARGET = 100e8;
    uint256 internal constant BOUND_ONLY = 3009;
    uint32 internal constant WEIGHT = 10e6;
    bytes8 internal constant MARK = bytes8(keccak256("service-settlement-bound-payment"));

    bytes32 internal constant OTHER = keccak256("another threshold");
    bytes32 internal constant LATE = keccak256("threshold");
    bytes32 internal constant RANGED = keccak256("range");
    bytes32 internal constant UPDOWN = keccak256("direction");
    bytes32 internal constant POSTED = keccak256("threshold on a feed with a publisher");

    uint8 internal constant YES = 0;
    uint8 internal constant NO = 1;

    bytes32 internal constant RELAYER_ROLE = keccak256("RELAYER");
    bytes32 internal constant CREDITOR_ROLE = keccak256("CREDITOR");

    bytes32 internal constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 internal constant RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 internal constant CANCEL_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");

    address internal constant SAFE = address(0x5AFE);
    address internal constant TREASURY = address(0x7E);
    address internal constant LISTER = address(0x11);
    address internal constant RELAYER = address(0x12);
    address internal constant GUARDIAN = address(0x13);
    address internal constant CREDITOR = address(0x14);
    address internal constant PUBLISHER = address(0x15);
    address internal constant STRANGER = address(0x99);

    uint256 internal constant ALICE_KEY = 0xA11CE;
    uint256 internal constant BOB_KEY = 0xB0B;
    uint256 internal constant CAROL_KEY = 0xCA401;

    ITestToken internal token;
    LocalFeed internal feed;
    ObservationFeed internal posted;
    SettlementWallet internal wallet;
    FeedResolver internal resolver;
    AgentLister internal lister;
    Pauser internal pauser;
    address internal alice = vm.addr(ALICE_KEY);
    address internal bob = vm.addr(BOB_KEY);
    address internal carol = vm.addr(CAROL_KEY);
    uint256 private _serial;

    function newToken() internal virtual returns (address);

    function setUp() public virtual {
        vm.warp(T0);
        token = ITestToken(newToken());
        feed = LocalFeed(deploy("LocalFeed", ""));
        feed.push(90e8, T0);
        posted = ObservationFeed(deploy("ObservationFeed", abi.encode(SAFE, "BNKR / USD market cap", LAG)));
        vm.prank(SAFE);
        posted.setPublisher(PUBLISHER);
        vm.prank(PUBLISHER);
        posted.post(90e8, uint64(T0));

        Deployed memory d = deployAll(address(token), SAFE, TREASURY, defaultBounds());
        (wallet, resolver, lister, pauser) = (d.wallet, d.resolver, d.lister, d.pauser);
        vm.startPrank(SAFE);
        wallet.setRole(RELAYER_ROLE, RELAYER, true);
        wallet.setRole(CREDITOR_ROLE, CREDITOR, true);
        pauser.setGuardian(GUARDIAN, true);
        lister.setLister(LISTER, true);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        lister.setFeed(address(posted), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        vm.stopPrank();
        list(OTHER, thresholdSpec(false));
        list(LATE, thresholdSpec(false));
        list(RANGED, rangeSpec());
        list(UPDOWN, directionSpec());
        list(POSTED, postedSpec());
        token.mint(alice, 1e16);
        token.mint(bob, 1e16);
        token.mint(carol, 1e16);
    }

    // Markets

    function defaultBounds() internal pure returns (IAgentLister.Bounds memory) {
        return IAgentLister.Bounds({
            feeBps: FEE_BPS, minWeight: 1e6, maxWeight: 1e9, disputeWindow: DISPUTE, voidDelay: VOID_DELAY
        });
    }

    function thresholdSpec(bool early) internal view returns (IAgentLister.MarketSpec memory s) {
        s = plainSpec(2);
        s.target = TARGET;
        s.earlyResolvable = early;
    }

    function postedSpec() internal view returns (IAgentLister.MarketSpec memory s) {
        s = thresholdSpec(false);
        s.feed = address(posted);
    }

    /// So many buckets, each 10 wide but the outer two.
    function rangeSpecOf(uint256 outcomes) internal view returns (IAgentLister.MarketSpec memory s) {
        s = plainSpec(outcomes);
        s.kind = IFeedResolver.Kind.Range;
        s.bounds = new int256[](outcomes - 1);
        for (uint256 k; k < outcomes - 1; ++k) {
            s.bounds[k] = int256(10e8 * (k + 5));
        }
    }

    /// Buckets under 50, 50 to 100, 100 to 200, 200 and over.
    function rangeSpec() internal view returns (IAgentLister.MarketSpec memory s) {
        s = plainSpec(4);
        s.kind = IFeedResolver.Kind.Range;
        s.bounds = new int256[](3);
        (s.bounds[0], s.bounds[1], s.bounds[2]) = (50e8, 100e8, 200e8);
    }

    function directionSpec() internal view returns (IAgentLister.MarketSpec memory s) {
        s = plainSpec(2);
        s.kind = IFeedResolver.Kind.Direction;
        s.startAt = uint64(START);
    }

    function plainSpec(uint256 outcomes) private view returns (IAgentLister.MarketSpec memory s) {
        s.feed = address(feed);
        s.opensAt = uint64(T0);
        s.closesAt = uint64(CLOSE);
        s.endsAt = uint64(END);
        s.weights = new uint32[](outcomes);
        for (uint256 k; k < outcomes; ++k) {
            s.weights[k] = WEIGHT;
        }
    }

    function list(bytes32 id, IAgentLister.MarketSpec memory s) internal {
        vm.prank(LISTER);
        lister.list(id, s, '{"id":"m"}');
    }

    // Payments

    function bet(bytes32 marketId, uint8 outcome, uint256 amount, address payer)
        internal
        returns (ISettlementWallet.Bet memory b)
    {
        (b.marketId, b.outcome, b.amount, b.wallet) = (marketId, outcome, amount, payer);
        b.idemHash = keccak256(abi.encode("key", ++_serial));
        b.builder = address(0xB1);
        b.ref = "ref";
    }

    /// A transfer with any nonce.
    function authorize(uint256 key, ISettlementWallet.Bet memory b, bytes32 nonce)
        internal
        view
        returns (ISettlementWallet.Authorization memory)
    {
        return authorize(key, b, nonce, 0);
    }

    function authorize(uint256 key, ISettlementWallet.Bet memory b, bytes32 nonce, uint256 validAfter)
        internal
        view
        returns (ISettlementWallet.Authorization memory)
    {
        return authorization(key, b.wallet, b.amount, ISettlementWallet.Form.Transfer, nonce, validAfter);
    }

    /// A transfer bound to one bet: its nonce is the bet's hash.
    function authorizeBound(uint256 key, ISettlementWallet.Bet memory b)
        internal
        view
        returns (ISettlementWallet.Authorization memory)
    {
        return authorize(key, b, wallet.betHash(b), BOUND_ONLY);
    }

    /// The receive form, whose nonce is the bet's hash under the mark.
    function authorizeReceive(uint256 key, ISettlementWallet.Bet memory b)
        internal
        view
        returns (ISettlementWallet.Authorization memory)
    {
        return authorization(key, b.wallet, b.amount, ISettlementWallet.Form.Receive, wallet.boundNonce(b), 0);
    }

    function authorization(
        uint256 key,
        address payer,
        uint256 value,
        ISettlementWallet.Form form,
        bytes32 nonce,
        uint256 validAfter
    ) internal view returns (ISettlementWallet.Authorization memory a) {
        (a.form, a.value, a.validAfter, a.nonce) = (form, value, validAfter, nonce);
        a.validBefore = T0 + 365 days;
        bytes32 typehash = form == ISettlementWallet.Form.Receive ? RECEIVE_TYPEHASH : TRANSFER_TYPEHASH;
        a.signature = signed(
            key, keccak256(abi.encode(typehash, payer, address(wallet), value, validAfter, a.validBefore, nonce))
        );
    }

    function signed(uint256 key, bytes32 structHash) internal view returns (bytes memory) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function freshNonce() internal returns (bytes32) {
        return keccak256(abi.encode("nonce", ++_serial));
    }

    /// As x402 clients pay: a transfer with a random nonce, sent by the relayer.
    function settle(bytes32 marketId, uint8 outcome, uint256 amount, uint256 key) internal returns (uint256 stakeId) {
        ISettlementWallet.Bet memory b = bet(marketId, outcome, amount, vm.addr(key));
        ISettlementWallet.Authorization memory a = authorize(key, b, freshNonce());
        vm.prank(RELAYER);
        return wallet.settle(b, a);
    }

    /// Someone hands the authorization to the token before the relayer does.
    function frontRun(address payer, ISettlementWallet.Authorization memory a) internal {
        vm.prank(STRANGER);
        token.transferWithAuthorization(
            payer, address(wallet), a.value, a.validAfter, a.validBefore, a.nonce, a.signature
        );
    }

    function cancel(uint256 key, bytes32 nonce) internal {
        token.cancelAuthorization(
            vm.addr(key), nonce, signed(key, keccak256(abi.encode(CANCEL_TYPEHASH, vm.addr(key), nonce)))
        );
    }

    // Looking

    function solvent() internal view {
        vm.assertGe(token.balanceOf(address(wallet)), liability(), "insolvent");
    }

    function liability() internal view returns (uint256) {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        return open + unpaid + fees;
    }

    function unbooked() internal view returns (uint256) {
        return token.balanceOf(address(wallet)) - liability();
    }

    function isOpen(bytes32 id) internal view returns (bool) {
        return wallet.market(id).status == ISettlementWallet.MarketStatus.Open;
    }

    function isVoid(bytes32 id) internal view returns (bool) {
        return wallet.market(id).status == ISettlementWallet.MarketStatus.Void;
    }

    function isResolved(bytes32 id, uint8 winner) internal view returns (bool) {
        ISettlementWallet.MarketView memory m = wallet.market(id);
        return m.status == ISettlementWallet.MarketStatus.Resolved && m.winner == winner;
    }

    function inBook(uint256 id) internal view returns (bool) {
        return wallet.stake(id).status == ISettlementWallet.StakeStatus.InBook;
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
        return deploy("LocalUSDC", "");
    }
}

abstract contract OnUsdg is WalletBase {
    function newToken() internal override returns (address) {
        return deploy("LocalUSDG", "");
    }
}

abstract contract OnOpenZeppelin is WalletBase {
    function newToken() internal override returns (address) {
        return address(new OzToken());
    }
}
