package dispatch

import "time"

// Attempt describes one attempt at delivering an event, after it ended.
type Attempt struct {
	Rule, Handler string
	Result        Result
	Duration      time.Duration // of this attempt
	Latency       time.Duration // since the change was first offered, over all attempts
}

// Result is the result of an attempt.
type Result string

// The results of an attempt.
const (
	Done     Result = "done"
	Idle     Result = "idle"   // the rule acts alone, and had no action to perform
	Retried  Result = "retry"  // it failed, and the dispatcher will repeat it
	Lost     Result = "lost"   // the handler went away; the dispatcher will repeat it
	Rejected Result = "reject" // the handler refused the event for good: a dead letter
	Dead     Result = "dead"   // out of attempts, or lost too often: a dead letter
	// it failed while the dispatcher was ending, which proves nothing; the event waits again
	Cancelled Result = "cancelled"
)

// Results returns all results of an attempt.
func Results() []Result { return []Result{Done, Idle, Retried, Lost, Rejected, Dead, Cancelled} }

// repeats reports whether the dispatcher delivers the event again.
func (r Result) repeats() bool { return r == Retried || r == Lost || r == Cancelled }

// isDone reports whether the attempt has ended well.
func (r Result) isDone() bool { return r == Done || r == Idle }
