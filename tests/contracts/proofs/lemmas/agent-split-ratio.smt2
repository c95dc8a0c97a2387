; A later piece grows its weight by no larger a factor.
; @custom:theorem agent.split.ratio
;
; A piece s bought at a weight w2 that is at least the w1 of the whole stake's path grows the weight by no larger a factor, so its
; logarithm is no larger than on that path: (w2 + s) / w2 <= (w1 + s) / w1.
(set-logic QF_NRA)
(declare-const w1 Real) (declare-const w2 Real) (declare-const s Real)
(assert (and (< 0 w1) (<= w1 w2) (<= 0 s)))
(push) (assert (and (= w1 10.0) (= w2 12.0) (= s 5.0))) (check-sat) (pop)
(assert (not (<= (/ (+ w2 s) w2) (/ (+ w1 s) w1))))
(check-sat)
