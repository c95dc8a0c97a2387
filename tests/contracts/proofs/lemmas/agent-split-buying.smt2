; What buys of two pieces is at most what buys of the whole.
; @custom:theorem agent.split.buying
;
; What buys shares of a stake of a is floor(a k / 10000), with k = 10000 - feeBps. Of two pieces it is at most what it is of the whole, and
; what the pool gets of one, a - floor(a (10000 - k) / 10000), is at least what buys.
(set-logic QF_NIA)
(declare-const a Int) (declare-const b Int) (declare-const k Int)
(declare-const fa Int) (declare-const fb Int) (declare-const fab Int) (declare-const fee Int)
(assert (and (<= 0 a) (<= 0 b) (<= 0 k 10000)))
(assert (and (<= (* fa 10000) (* a k)) (< (* a k) (+ (* fa 10000) 10000))))
(assert (and (<= (* fb 10000) (* b k)) (< (* b k) (+ (* fb 10000) 10000))))
(assert (and (<= (* fab 10000) (* (+ a b) k)) (< (* (+ a b) k) (+ (* fab 10000) 10000))))
(assert (and (<= (* fee 10000) (* a (- 10000 k))) (< (* a (- 10000 k)) (+ (* fee 10000) 10000))))
(push) (assert (and (= a 999) (= b 1) (= k 9750))) (check-sat) (pop)
(assert (not (and (<= (+ fa fb) fab) (<= fa (- a fee) (+ fa 1)))))
(check-sat)
