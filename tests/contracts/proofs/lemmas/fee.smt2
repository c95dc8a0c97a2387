; A fee is never more than the gain.
; @custom:theorem stock.fee.of-gain
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; The fee floor(gain bps / 10000) is never more than the gain, so the payout less its fee is never less than the stake.
(set-logic QF_NIA)
(declare-const gain Int) (declare-const bps Int) (declare-const fee Int)
(assert (and (<= 0 gain) (<= 0 bps 10000)))
(assert (and (<= (* fee 10000) (* gain bps)) (< (* gain bps) (+ (* fee 10000) 10000))))
(push) (assert (and (= gain 999) (= bps 250))) (check-sat) (pop)
(assert (not (<= 0 fee gain)))
(check-sat)
