// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAggregatorV3} from "../lib/IAggregatorV3.sol";

/// @title A price feed for local chains that behaves like a Chainlink proxy: phases, and rounds that may be missing
/// @notice Anyone may write. It keeps nothing in code, so its runtime bytecode can be put straight into a genesis file:
///         untouched storage is a feed in phase 1, without rounds, whose missing rounds revert.
contract LocalFeed is IAggregatorV3 {
    /// How absent rounds are answered; both kinds exist among real feeds.
    enum Missing {
        Reverts,
        Zeros
    }

    struct Stored {
        int192 answer;
        uint64 updatedAt; // 0: absent
    }

    struct Phase {
        uint64 rounds; // the number of the latest one
        mapping(uint64 number => Stored) data;
    }

    /// The round as an aggregator's log shows it; `roundId` is the proxy's, with the phase in it.
    event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);
    event PhaseStarted(uint16 indexed phase);

    /// @notice As the aggregators of older feeds answer for a round they do not have.
    error NoDataPresent(uint80 roundId);
    /// @notice The feed has not come to this phase yet.
    error UnknownPhase(uint16 phase, uint16 current);
    /// @notice The numbers do not fit a round: answers take 192 bits, times 64.
    error RoundTooLarge(int256 answer, uint256 updatedAt);
    /// @notice One time for each answer.
    error LengthMismatch(uint256 answers, uint256 times);

    uint8 public constant decimals = 8;
    uint256 public constant version = 1;

    string public description;
    uint16 private _phasesBefore; // the current phase less one, so that untouched storage is phase 1
    Missing public missingMode;
    mapping(uint16 phase => Phase) private _phases;

    // Controls

    function setDescription(string calldata text) external {
        description = text;
    }

    function setMissingMode(Missing mode) external {
        missingMode = mode;
    }

    /// @notice Writes the next round of the current phase.
    /// @param answer in 8 decimals; may be nonsense
    /// @param updatedAt Unix seconds; may lie in the past or the future
    function push(int256 answer, uint256 updatedAt) external returns (uint80 roundId) {
        return _push(phaseId(), answer, updatedAt);
    }

    /// @notice Writes the next round of any phase reached so far: an aggregator goes on after its proxy left it.
    function pushInto(uint16 phase, int256 answer, uint256 updatedAt) public returns (uint80 roundId) {
        uint16 current = phaseId();
        if (phase == 0 || phase > current) revert UnknownPhase(phase, current);
        return _push(phase, answer, updatedAt);
    }

    /// @notice Writes several rounds of the current phase, in order.
    function pushMany(int256[] calldata answers, uint256[] calldata times) external {
        if (answers.length != times.length) revert LengthMismatch(answers.length, times.length);
        uint16 phase = phaseId();
        for (uint256 i; i < answers.length; ++i) {
            _push(phase, answers[i], times[i]);
        }
    }

    /// @notice Rewrites one round, or makes it absent (`updatedAt` 0), which no real feed can. Does not move the latest round.
    function setRound(uint80 roundId, int256 answer, uint256 updatedAt) external {
        _phases[uint16(roundId >> 64)].data[uint64(roundId)] = _stored(answer, updatedAt);
    }

    /// @notice Switches to a new aggregator, without rounds.
    function startPhase() external returns (uint16 phase) {
        _phasesBefore += 1;
        phase = phaseId();
        emit PhaseStarted(phase);
    }

    // Views

    function phaseId() public view returns (uint16) {
        return _phasesBefore + 1;
    }

    /// @notice How many rounds a phase has.
    function roundsIn(uint16 phase) external view returns (uint64) {
        return _phases[phase].rounds;
    }

    /// @inheritdoc IAggregatorV3
    function getRoundData(uint80 id) external view returns (uint80, int256, uint256, uint256, uint80) {
        return _round(id);
    }

    /// @inheritdoc IAggregatorV3
    /// @dev In an empty phase the zeros variant still says which phase it is, as proxies do.
    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        uint16 phase = phaseId();
        return _round(_id(phase, _phases[phase].rounds));
    }

    // Internals

    function _push(uint16 phase, int256 answer, uint256 updatedAt) private returns (uint80 roundId) {
        Phase storage p = _phases[phase];
        uint64 number = p.rounds + 1;
        p.rounds = number;
        p.data[number] = _stored(answer, updatedAt);
        roundId = _id(phase, number);
        emit AnswerUpdated(answer, roundId, updatedAt);
    }

    function _stored(int256 answer, uint256 updatedAt) private pure returns (Stored memory) {
        if (int192(answer) != answer || uint64(updatedAt) != updatedAt) revert RoundTooLarge(answer, updatedAt);
        return Stored(int192(answer), uint64(updatedAt));
    }

    function _round(uint80 id) private view returns (uint80, int256, uint256, uint256, uint80) {
        Stored memory r = _phases[uint16(id >> 64)].data[uint64(id)];
        if (r.updatedAt == 0 && missingMode == Missing.Reverts) revert NoDataPresent(id);
        return (id, r.answer, r.updatedAt, r.updatedAt, id);
    }

    function _id(uint16 phase, uint64 number) private pure returns (uint80) {
        return uint80(phase) << 64 | number;
    }
}
