; A vintage promises a side no more than the pool, if that held before.
; @custom:theorem stock.promise.covered
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; R is what a side's positions are promised, times S: the sum of a (S + acc - e). Their accepted parts are U in all, the other side's D.
; A vintage accepts u on their side and d on the other: each promise grows by a floor(d S / U), so R by U floor(d S / U) + u S.
; R stays within the pool: R <= S (U + D). The seed, entered at 0 with acc = S, begins at R = 2 S s = S (s + s).
(set-logic QF_NIA)
(define-const S Int 1000000000000000000)
(declare-const U Int) (declare-const D Int) (declare-const u Int) (declare-const d Int)
(declare-const R Int) (declare-const grown Int)
(assert (and (< 0 U) (< 0 D) (<= 0 u) (<= 0 d) (<= 0 R (* S (+ U D)))))
(assert (and (<= (* grown U) (* d S)) (< (* d S) (+ (* grown U) U))))
(push) (assert (and (= U 10) (= D 10) (= u 3) (= d 4) (= R (* 20 S)))) (check-sat) (pop)
(assert (not (<= (+ R (* U grown) (* u S)) (* S (+ U u D d)))))
(check-sat)
