// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StockBase} from "./StockBase.sol";

/// Signs entries as a bettor's wallet does.
abstract contract SignedEntries is StockBase {
    uint256 internal constant KEY = 0xB0B5;

    struct Entry {
        address from;
        uint256 marketId;
        uint8 outcome;
        uint256 amount;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 salt;
    }

    function entry(uint256 marketId, uint8 outcome, uint256 amount) internal pure returns (Entry memory) {
        return Entry({
            from: vm.addr(KEY),
            marketId: marketId,
            outcome: outcome,
            amount: amount,
            validAfter: 0,
            validBefore: FREEZE + 365 days,
            salt: keccak256("salt")
        });
    }

    /// The token's ReceiveWithAuthorization for `e`, as r, s, v.
    function sign(Entry memory e, uint256 key) internal view returns (bytes memory) {
        bytes32 structHash = keccak256(
            abi.encode(
                token.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
                e.from,
                address(markets),
                e.amount,
                e.validAfter,
                e.validBefore,
                markets.entryNonce(e.marketId, e.outcome, e.amount, e.salt)
            )
        );
        return signed(structHash, key);
    }

    function cancel(Entry memory e, uint256 key) internal {
        bytes32 nonce = markets.entryNonce(e.marketId, e.outcome, e.amount, e.salt);
        bytes32 structHash = keccak256(abi.encode(token.CANCEL_AUTHORIZATION_TYPEHASH(), e.from, nonce));
        token.cancelAuthorization(e.from, nonce, signed(structHash, key));
    }

    function send(Entry memory e, bytes memory signature) internal returns (uint256 positionId) {
        return markets.enterWithAuthorization(
            e.from, e.marketId, e.outcome, e.amount, e.validAfter, e.validBefore, e.salt, signature
        );
    }

    function signed(bytes32 structHash, uint256 key) internal view returns (bytes memory) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }
}
