; Payouts never exceed a pool that covers the shares, for any number of bets.
; @custom:theorem agent.payouts.rich
; @custom:bounds all integers; the contracts' widths keep every product below 2^256 (`widths`)
;
; A pool of N holds at least the winners' shares Q. Of them `done` are paid, with `paid` units: paid Q <= N done. A bet of q more shares
; is paid floor(q N / Q). The same holds after it, so all together are paid at most N, however many there are; and q at least.
(set-logic QF_NIA)
(declare-const N Int) (declare-const Q Int) (declare-const done Int) (declare-const paid Int) (declare-const q Int) (declare-const o Int)
(assert (and (< 0 Q) (<= Q N) (<= 0 done) (< 0 q) (<= (+ done q) Q) (<= 0 paid) (<= (* paid Q) (* N done))))
(assert (and (<= (* o Q) (* q N)) (< (* q N) (+ (* o Q) Q))))
(push) (assert (and (= N 10) (= Q 7) (= done 3) (= paid 4) (= q 2) (= o 2))) (check-sat) (pop)
(assert (not (and (<= (* (+ paid o) Q) (* N (+ done q))) (<= (+ paid o) N) (<= q o))))
(check-sat)
