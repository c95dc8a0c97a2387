; Accumulators stay below 2^96, for any number of vintages.
; @custom:theorem stock.acc.width
; @custom:bounds real numbers; that 1 + 1/2 + ... + 1/n is at most 1 + ln n is taken from analysis
;
; T / (V + T) is at most the sum of 1 / j for j from V + 1 to V + T, by induction over T: `sum` is that sum, and one more term keeps the
; claim. So all vintages together add at most kappa S (1 + 1/2 + ... + 1/n) with n < 2^48; that sum is below 1 + ln(2^48) < 34.3,
; and S and kappa <= 1e9 times it stay below 2^96.
(set-logic QF_NRA)
(declare-const V Real) (declare-const T Real) (declare-const sum Real)
(assert (and (<= 1 V) (<= 0 T)))
(assert (<= (/ T (+ V T)) sum))
(push) (assert (and (= V 1.0) (= T 1.0) (= sum 0.5))) (check-sat) (pop)
(assert (not (and
  (<= (/ (+ T 1) (+ V T 1)) (+ sum (/ 1 (+ V T 1))))
  (< (* 1000000000000000000.0 (+ 1.0 (* 1000000000.0 34.3))) 79228162514264337593543950336.0))))
(check-sat)
