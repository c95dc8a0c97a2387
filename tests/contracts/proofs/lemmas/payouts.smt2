; Payouts of a market never exceed its pool, for any number of positions.
; @custom:theorem stock.payouts.covered
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; Of a settled market with `pool` units, `sent` are paid and `left` is still promised, times S. A position promised r is paid
; g = floor(r / S). What holds before it holds after it, so payments never exceed the pool, however many positions there are.
(set-logic QF_NIA)
(define-const S Int 1000000000000000000)
(declare-const pool Int) (declare-const sent Int) (declare-const left Int) (declare-const r Int) (declare-const g Int)
(assert (and (<= 0 sent) (<= 0 r left) (<= (+ (* S sent) left) (* S pool))))
(assert (and (<= (* g S) r) (< r (+ (* g S) S))))
(push) (assert (and (= pool 20) (= sent 3) (= left (* 17 S)) (= r (* 5 S)))) (check-sat) (pop)
(assert (not (and (<= (+ (* S (+ sent g)) (- left r)) (* S pool)) (<= (+ sent g) pool))))
(check-sat)
