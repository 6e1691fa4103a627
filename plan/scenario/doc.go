// Package scenario is the text language for snapshots and plans: it parses
// them, prints them, and runs a file of them in the simulated world. What it
// prints of a snapshot parses back to an equal one, so a bug report is a test.
// It never decides anything and knows no test library.
//
// A file is lines of a verb and its words. A line that begins with a blank
// continues the one above; "#" at the start of a line begins a comment.
//
//	policy   wait-cost=20 freeze                       how decisions are made
//	tick     at=2026-01-01T00:00:00Z | 10s             the time now, or time that passes
//	pool     NAME max=4 price=2 gpus=2 model=H100-80GB layout=(…)
//	node     NAME pool=POOL | NAME gone                cards, labels … come from the pool
//	gpu      NODE/INDEX layout=(3g.40gb@0:held=ns/pod 3g.40gb@4:idle=5m)
//	pod      NS/NAME wants=3g.40gb | NS/NAME gone
//	plan     [all] [apply]                             what should be done now
//	settle   for=10m                                   plan, act and wait, again and again
//
// Times are durations from now: idle=5m is five minutes ago, backoff=5m in five
// minutes. "@" and RFC 3339 is absolute, "never" is no time at all. A word with
// blanks or any of ()=:," in it is quoted as in Go.
package scenario
