; A vintage adds at most kappa S T / (V + T) to an accumulator.
; @custom:theorem stock.acc.step
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; A vintage accepts T into an outcome of principal P into which V has vested, and the capacity rule keeps V + T within kappa P. Its
; accumulator grows by q = floor(T S / P): at most kappa S T / (V + T).
(set-logic QF_NIA)
(define-const S Int 1000000000000000000)
(declare-const P Int) (declare-const V Int) (declare-const T Int) (declare-const kappa Int) (declare-const q Int)
(assert (and (< 0 P) (< 0 V) (<= 0 T) (< 0 kappa) (<= (+ V T) (* kappa P))))
(assert (and (<= (* q P) (* T S)) (< (* T S) (+ (* q P) P))))
(push) (assert (and (= P 10) (= V 10) (= T 90) (= kappa 10))) (check-sat) (pop)
(assert (not (<= (* q (+ V T)) (* kappa S T))))
(check-sat)
