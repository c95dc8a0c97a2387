; Of what line 30 gives, the shares of a split never exceed the whole's, with ln off by under 0.06.
; @custom:theorem agent.split.logs
; @custom:bounds two pieces or more; lnWad off by less than 0.06 before its floor, which a test searches for
;
; Logarithms as wads. Each computed one lies under the true one by at least 3 - 0.06 and by less than 3 + 2.06 (LN_MARGIN, two floors and
; lnWad's error of 0.06, which a test searches for). The pieces' true logarithms are at most p1 + p2 = w, the whole's. Then their
; computed ones, l1 + l2, are below the whole's, L; so is floor(c l1 / S) + floor(c l2 / S) at most floor(c L / S), with c the other
; outcomes' weight. For more pieces: each is at least 2.94 under, so `many` of two or more are below L as well.
(set-logic AUFNIRA)
(declare-const p1 Real) (declare-const p2 Real) (declare-const w Real)
(declare-const l1 Int) (declare-const l2 Int) (declare-const L Int) (declare-const c Int)
(declare-const f1 Int) (declare-const f2 Int) (declare-const f Int)
(define-const S Int 1000000000000000000)
(assert (and (= w (+ p1 p2)) (<= 0 l1) (<= 0 l2) (<= 0 L) (<= 0 c)))
(assert (<= (to_real l1) (- p1 2.94)))
(assert (<= (to_real l2) (- p2 2.94)))
(assert (< (- w 5.06) (to_real L)))
(assert (and (<= (* f1 S) (* c l1)) (< (* c l1) (+ (* f1 S) S))))
(assert (and (<= (* f2 S) (* c l2)) (< (* c l2) (+ (* f2 S) S))))
(assert (and (<= (* f S) (* c L)) (< (* c L) (+ (* f S) S))))
(push) (assert (and (= p1 100.0) (= p2 200.0) (= l1 97) (= l2 197) (= L 295) (= c 0))) (check-sat) (pop)
(assert (not (and (< (+ l1 l2) L) (<= (+ f1 f2) f))))
(check-sat)
