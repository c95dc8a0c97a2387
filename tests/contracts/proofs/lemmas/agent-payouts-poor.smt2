; Payouts never exceed a pool that does not cover the shares, for any number of bets, and each bet has its net stake back.
; @custom:theorem agent.payouts.poor
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; A pool of N holds less than the winners' shares; their net stakes are M <= N, what their shares exceed those by is X. Of them are paid
; bets of `nets` and `excess`, with nets + extra units: extra X <= excess (N - M). A bet of net s and excess x more is paid
; s + floor(x (N - M) / X). The same holds after it, so all together are paid at most N; and each s at least.
(set-logic QF_NIA)
(declare-const N Int) (declare-const M Int) (declare-const X Int)
(declare-const nets Int) (declare-const excess Int) (declare-const extra Int)
(declare-const s Int) (declare-const x Int) (declare-const e Int)
(assert (and (<= 0 M N) (< 0 X) (<= 0 nets) (<= 0 s) (<= (+ nets s) M) (<= 0 excess) (<= 0 x) (<= (+ excess x) X)))
(assert (and (<= 0 extra) (<= (* extra X) (* excess (- N M)))))
(assert (and (<= (* e X) (* x (- N M))) (< (* x (- N M)) (+ (* e X) X))))
(push) (assert (and (= N 10) (= M 6) (= X 5) (= nets 2) (= excess 2) (= extra 1) (= s 3) (= x 2) (= e 1))) (check-sat) (pop)
(assert (not (and (<= (* (+ extra e) X) (* (+ excess x) (- N M))) (<= (+ nets s extra e) N) (<= s (+ s e)))))
(check-sat)
