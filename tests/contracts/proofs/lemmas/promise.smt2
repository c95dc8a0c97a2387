; What a position is promised never falls, nor below its stake.
; @custom:theorem stock.promise.rises
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; A position of a accepted units that entered at e is promised floor(a (S + acc - e) / S). While acc does not fall the promise does not,
; and it is never below a.
(set-logic QF_NIA)
(define-const S Int 1000000000000000000)
(declare-const a Int) (declare-const e Int) (declare-const acc Int) (declare-const later Int)
(declare-const now Int) (declare-const then Int)
(assert (and (<= 0 a) (<= 0 e acc later)))
(assert (and (<= (* now S) (* a (- (+ S acc) e))) (< (* a (- (+ S acc) e)) (+ (* now S) S))))
(assert (and (<= (* then S) (* a (- (+ S later) e))) (< (* a (- (+ S later) e)) (+ (* then S) S))))
(push) (assert (and (= a 5) (= e 0) (= acc S) (= later (* 3 S)))) (check-sat) (pop)
(assert (not (<= a now then)))
(check-sat)
