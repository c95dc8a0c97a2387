// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// The cheatcodes our tests use; forge implements them at a fixed address.
interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function addr(uint256 privateKey) external pure returns (address);
    function assume(bool condition) external pure;
    function chainId(uint256 newChainId) external;
    function deal(address account, uint256 balance) external;
    function etch(address target, bytes calldata code) external;
    function expectEmit(bool topic1, bool topic2, bool topic3, bool data, address emitter) external;
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function expectRevert(bytes calldata data) external;
    function getCode(string calldata artifact) external view returns (bytes memory);
    function getRecordedLogs() external returns (Log[] memory);
    function label(address account, string calldata name) external;
    function load(address target, bytes32 slot) external view returns (bytes32);
    function mockCall(address callee, bytes calldata data, bytes calldata returnData) external;
    function mockCallRevert(address callee, bytes calldata data, bytes calldata revertData) external;
    function clearMockedCalls() external;
    function prank(address sender) external;
    function readFile(string calldata path) external view returns (string memory);
    function readFileBinary(string calldata path) external view returns (bytes memory);
    function envOr(string calldata name, string calldata defaultValue) external view returns (string memory);
    function exists(string calldata path) external view returns (bool);
    function skip(bool skipTest, string calldata reason) external;
    function recordLogs() external;
    function roll(uint256 blockNumber) external;
    function sign(uint256 privateKey, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function snapshotState() external returns (uint256);
    function revertToState(uint256 id) external returns (bool);
    function startPrank(address sender) external;
    function stopPrank() external;
    function store(address target, bytes32 slot, bytes32 value) external;
    function warp(uint256 timestamp) external;
    function cool(address target) external;
    function lastCallGas() external view returns (Gas memory);

    struct Gas {
        uint64 gasLimit;
        uint64 gasTotalUsed;
        uint64 gasMemoryUsed;
        int64 gasRefunded;
        uint64 gasRemaining;
    }

    function assertTrue(bool condition) external pure;
    function assertTrue(bool condition, string calldata message) external pure;
    function assertFalse(bool condition) external pure;
    function assertFalse(bool condition, string calldata message) external pure;
    function assertEq(uint256 a, uint256 b) external pure;
    function assertEq(uint256 a, uint256 b, string calldata message) external pure;
    function assertEq(int256 a, int256 b) external pure;
    function assertEq(bytes32 a, bytes32 b) external pure;
    function assertEq(address a, address b) external pure;
    function assertEq(bool a, bool b) external pure;
    function assertEq(bool a, bool b, string calldata message) external pure;
    function assertEq(string calldata a, string calldata b) external pure;
    function assertEq(bytes calldata a, bytes calldata b) external pure;
    function assertLe(uint256 a, uint256 b) external pure;
    function assertLe(uint256 a, uint256 b, string calldata message) external pure;
    function assertGe(uint256 a, uint256 b) external pure;
    function assertGe(uint256 a, uint256 b, string calldata message) external pure;
    function assertLt(uint256 a, uint256 b) external pure;
    function assertGt(uint256 a, uint256 b) external pure;
}

/// What every Solidity test stands on. The published forge-std packages are old, and we use a fraction of them.
abstract contract Base {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    /// forge looks here for a failed assertion of contracts that are tests.
    bool public constant IS_TEST = true;
    bool public constant IS_SCRIPT = false;

    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    /// Creates a contract by its name: with `new`, every test contract would hold, and the compiler compile, its own copy.
    function deploy(string memory name, bytes memory args) internal returns (address at_) {
        bytes memory code = abi.encodePacked(vm.getCode(artifactOf(name)), args);
        assembly ("memory-safe") {
            at_ := create(0, add(code, 0x20), mload(code))
        }
        vm.assertTrue(at_ != address(0), name);
    }

    function artifactOf(string memory name) internal view virtual returns (string memory) {
        return name;
    }

    address[] private _targets;
    FuzzSelector[] private _selectors;

    /// The contracts an invariant campaign calls; none named means all deployed ones.
    function targetContracts() public view returns (address[] memory) {
        return _targets;
    }

    function targetSelectors() public view returns (FuzzSelector[] memory) {
        return _selectors;
    }

    function targetContract(address target) internal {
        _targets.push(target);
    }

    function targetSelector(FuzzSelector memory selector) internal {
        _selectors.push(selector);
    }

    /// Folds any fuzzed number into [min, max]; keeps numbers that are in it already, so edge cases survive.
    function bound(uint256 x, uint256 min, uint256 max) internal pure returns (uint256) {
        if (x >= min && x <= max) return x;
        uint256 size = max - min + 1;
        return size == 0 ? x : min + x % size;
    }
}
