// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Base} from "./Base.sol";

/// For tests that measure what is deployed: contracts come from the recorded build, which `./vpm bench gas` lays out.
abstract contract RecordedBuild is Base {
    function artifactOf(string memory name) internal pure virtual override returns (string memory) {
        return string.concat(".vpm/build/recorded/", name, ".json");
    }
}
