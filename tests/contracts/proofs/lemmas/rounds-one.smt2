; At most one round of the current phase proves for a time.
; @custom:theorem rounds.one
; @custom:bounds feeds whose rounds are consecutive in a phase and never fall in time
;
; A round a proves for t, so the one that a phase has next (n: its time, 0 if there is none) is not at or before t. A feed's rounds are
; consecutive and never fall in time: if a later one of that phase is there (b), n is there and not later. Then b is not at or before t
; either, and does not prove: at most one round of the phase proves.
(set-logic QF_LIA)
(declare-const n Int) (declare-const b Int) (declare-const t Int)
(assert (and (<= 0 n) (<= 0 b) (<= 0 t)))
(assert (not (and (not (= n 0)) (<= n t))))
(assert (or (= b 0) (and (not (= n 0)) (<= n b))))
(push) (assert (and (= n 7) (= b 9) (= t 5))) (check-sat) (pop)
(assert (and (not (= b 0)) (<= b t)))
(check-sat)
