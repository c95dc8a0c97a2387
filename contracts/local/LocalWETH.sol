// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {WETH} from "solady/src/tokens/WETH.sol";

/// @title Wrapped ether as a local chain has it, where Base keeps its own
contract LocalWETH is WETH {}
