; Accepted parts are from 0 to the offer, and sum to what was accepted, for any number of entries.
; @custom:theorem stock.parts.sum
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; A is accepted of the D offered on one side. The part of an entry that offers y behind x is floor((x + y) A / D) - floor(x A / D).
; It is from 0 to y, and through the last entry (x + y = D) the parts are A in all: each adds to a running total.
(set-logic QF_NIA)
(declare-const D Int) (declare-const A Int) (declare-const x Int) (declare-const y Int)
(declare-const before Int) (declare-const through Int)
(assert (and (< 0 D) (<= 0 A D) (<= 0 x) (<= 0 y) (<= (+ x y) D)))
(assert (and (<= (* before D) (* x A)) (< (* x A) (+ (* before D) D))))
(assert (and (<= (* through D) (* (+ x y) A)) (< (* (+ x y) A) (+ (* through D) D))))
(push) (assert (and (= D 7) (= A 5) (= x 3) (= y 4))) (check-sat) (pop)
(assert (not (and (<= 0 (- through before) y) (=> (= (+ x y) D) (= through A)))))
(check-sat)
