package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// clocked are replicas whose clocks differ, with rules that are about time.
type clocked struct {
	*replicated
	k       *harness.Kube
	clocks  map[string]time.Duration // how far each is ahead, by name
	daemons []*harness.Daemon        // that led, in order
	// cutShort are those of daemons that were killed in the middle of a moment: what they sent last
	// may come again.
	cutShort map[*harness.Daemon]bool
	swept    []string // the objects of the rule sweep
}

// lasts is the for of the rule lasting.
const lasts = 12 * time.Second

func startClocked(t *testing.T) *clocked {
	t.Helper()
	c := cluster.Shared(t)
	r := &clocked{
		replicated: newReplicated(t, c, harness.Seed(t), nil), k: harness.NewKube(t, c),
		clocks: make(map[string]time.Duration), cutShort: make(map[*harness.Daemon]bool),
	}
	for i := range 60 {
		r.swept = append(r.swept, fmt.Sprintf("swept-%d", i))
		r.k.Create(harness.ConfigMap(r.swept[i], "{}"))
	}
	const minutely = "schedule: {cron: '* * * * *'}, handler: log, delivery: every, " +
		"payload: {moment: 'moment()', now: 'now()'}"
	named := func(prefix string) string {
		return `source: maps, where: object.metadata.name startsWith "` + prefix + `", `
	}
	r.manifest = r.k.Text(harness.Source("maps", harness.ConfigMaps) +
		harness.Handler("log", "builtin: log") +
		harness.Rule("tick", minutely) +
		harness.Rule("sweep", named("swept-")+minutely) +
		harness.Rule("again",
			named("swept-0")+"handler: log, events: [synced], resync: 3s, delivery: every") +
		harness.Rule("lasting", named("lasting")+"handler: log, events: [added], for: "+lasts.String()))
	r.startAll()
	r.awaitAll()
	return r
}

// set sets the clock of a replica.
func (r *clocked) set(one *replicaUnderTest, ahead time.Duration) {
	r.t.Helper()
	r.clocks[one.name] = ahead
	harness.SetClock(r.t, one.daemon.Cmd.Process.Pid, ahead)
}

// minute returns the latest full minute by a replica's clock.
func (r *clocked) minute(one *replicaUnderTest) int64 {
	return time.Now().Add(r.clocks[one.name]).Truncate(time.Minute).Unix()
}

// sentBy returns the events of a daemon's rule so far.
func sentBy(d *harness.Daemon, rule string) (events []handler.Event) {
	d.Until("anything", func() bool {
		for _, ev := range d.Events {
			if ev.Rule == rule {
				events = append(events, ev)
			}
		}
		return true
	})
	return events
}

// momentOf returns the moment at which an event's id ends.
func momentOf(t *testing.T, ev handler.Event) int64 {
	t.Helper()
	moment, err := strconv.ParseInt(ev.ID[strings.LastIndexByte(ev.ID, '/')+1:], 10, 64)
	if err != nil {
		t.Fatalf("the id %s: %v", ev.ID, err)
	}
	return moment
}

// latest returns the latest moment that the rule tick has had, and the latest one that all objects
// of the rule sweep have had. Each rule may notice later that the clock was set.
func (r *clocked) latest() (tick, sweep int64) {
	latest := make(map[string]int64)
	for _, d := range r.daemons {
		for _, ev := range append(sentBy(d, "tick"), sentBy(d, "sweep")...) {
			latest[ev.Name] = max(latest[ev.Name], momentOf(r.t, ev))
		}
	}
	sweep = latest[r.swept[0]]
	for _, name := range r.swept {
		sweep = min(sweep, latest[name])
	}
	return latest["tick"], sweep
}

// await waits until the present minute of the leader's clock has come, which is a new one.
func (r *clocked) await(leader *replicaUnderTest) {
	r.t.Helper()
	began, least := time.Now(), r.minute(leader)
	r.poll("the moment of the leader's clock", func() bool {
		tick, sweep := r.latest()
		return tick >= least && sweep >= least
	})
	r.t.Logf("the moments of %s, whose clock is %v ahead, came after %v",
		leader.name, r.clocks[leader.name], time.Since(began).Round(time.Millisecond))
}

// silent checks that a leader whose clock is behind the latest moments makes none.
func (r *clocked) silent(leader *replicaUnderTest) {
	r.t.Helper()
	tick, sweep := r.latest()
	if r.minute(leader) > min(tick, sweep) {
		r.t.Fatalf("the clock of %s is not behind", leader.name)
	}
	time.Sleep(3 * time.Second)
	if nextTick, nextSweep := r.latest(); nextTick != tick || nextSweep != sweep {
		r.t.Errorf("after the moments %d and %d, those of %d and %d came from %s",
			tick, sweep, nextTick, nextSweep, leader.name)
	}
}

// leads notes that a replica leads.
func (r *clocked) leads(leader *replicaUnderTest) *replicaUnderTest {
	if !slices.Contains(r.daemons, leader.daemon) {
		r.daemons = append(r.daemons, leader.daemon)
	}
	return leader
}

// succeed sets the clocks of the followers, kills the leader and starts it again. It returns the
// next leader.
func (r *clocked) succeed(leader *replicaUnderTest, ahead time.Duration) *replicaUnderTest {
	r.t.Helper()
	for i, one := range r.replicas {
		if one != leader {
			r.set(one, ahead+time.Duration(i)*time.Second)
		}
	}
	if !r.cutShort[leader.daemon] {
		r.settle(leader)
	}
	r.kill(leader)
	next := r.leads(r.awaitLeaderBut(leader))
	r.start(leader)
	r.clocks[leader.name] = 0
	r.leads(r.awaitAll())
	again := len(sentBy(next.daemon, "again"))
	r.poll("a resync by the next leader", func() bool {
		return len(sentBy(next.daemon, "again")) > again
	})
	return next
}

// settle waits until the handler has acknowledged everything, and the state has that, at a time at
// which no moment is near.
func (r *clocked) settle(leader *replicaUnderTest) {
	r.t.Helper()
	r.poll("a time between moments", func() bool {
		second := time.Now().Add(r.clocks[leader.name]).Second()
		return 2 < second && second < 50
	})
	leader.daemon.AwaitDelivered()
	leader.daemon.AwaitWritten()
}

// TestReplicasWithOtherClocks kills leaders whose clocks differ by hours, and sets the clocks of
// those that lead: each moment of a schedule comes once, whichever clock leads.
func TestReplicasWithOtherClocks(t *testing.T) {
	t.Parallel()
	stalls := harness.Stalls(t)
	r := startClocked(t)
	leader := r.leads(r.awaitLeader())
	status, _ := r.status(leader)

	// The leader's clock is set forward, and back. What waits for a time to pass does not notice.
	r.k.Create(harness.ConfigMap("lasting", "{}"))
	created := time.Now()
	r.set(leader, 10*time.Minute)
	r.poll("what lasts", func() bool { return len(sentBy(leader.daemon, "lasting")) > 0 })
	if took := time.Since(created); took < lasts-time.Second {
		t.Errorf("what lasts for %v came after %v", lasts, took)
	}
	r.await(leader)
	r.set(leader, -time.Hour)
	r.silent(leader)
	term := status.Members[0].Term
	if now, ok := r.status(leader); ok && now.Members[0].Term != term && stalls() < time.Second/4 {
		t.Errorf("the term is %d, and was %d before the clock was set", now.Members[0].Term, term)
	}

	// The next leader is ahead. It is killed in the middle of its moment.
	leader = r.succeed(leader, time.Hour)
	r.await(leader)
	r.set(leader, 80*time.Minute)
	began := len(sentBy(leader.daemon, "sweep"))
	r.poll("the next moment", func() bool { return len(sentBy(leader.daemon, "sweep")) > began })
	r.cutShort[leader.daemon] = true

	// The next leader is behind. It ends the moment, and makes none until its clock is set.
	leader = r.succeed(leader, -time.Hour)
	ended := r.daemons[len(r.daemons)-2]
	last := sentBy(ended, "sweep")
	moment := momentOf(t, last[len(last)-1])
	r.poll("the moment to end", func() bool {
		_, sweep := r.latest()
		return sweep >= moment
	})
	r.silent(leader)
	r.set(leader, 100*time.Minute)
	r.await(leader)

	// The next ones are ahead once more, and right.
	leader = r.succeed(leader, 2*time.Hour)
	r.await(leader)
	leader = r.succeed(leader, 0)
	r.silent(leader)
	for _, one := range r.replicas {
		one.daemon.Stop()
		r.examine(one)
	}
	r.check()
}

// check checks that no moment came twice to an object, except what was in flight when a leader was
// killed, and that moments came in order.
func (r *clocked) check() {
	r.t.Helper()
	type delivered struct {
		by *harness.Daemon
		id string
	}
	moments, ids := 0, make(map[string]delivered) // by rule, object and moment
	latest := make(map[string]int64)
	for i, d := range r.daemons {
		for _, ev := range append(sentBy(d, "tick"), sentBy(d, "sweep")...) {
			moment, object := momentOf(r.t, ev), ev.Rule+"/"+ev.Name
			var payload struct{ Moment time.Time }
			if err := json.Unmarshal(ev.Payload, &payload); err != nil || payload.Moment.Unix() != moment {
				r.t.Errorf("%s has the payload %s: %v", ev.ID, ev.Payload, err)
			}
			key := fmt.Sprint(object, "/", moment)
			before, isRepeat := ids[key]
			// The next leader sends what was not acknowledged, and then the whole round once more.
			wasCutShort := i > 0 && r.cutShort[r.daemons[i-1]] &&
				(before.by == r.daemons[i-1] || before.by == d)
			switch {
			case isRepeat && before.id != ev.ID:
				r.t.Errorf("a moment came as %s and as %s", before.id, ev.ID)
			case isRepeat && !wasCutShort:
				r.t.Errorf("%s came again, although it was done", ev.ID)
			case !isRepeat && moment <= latest[object]:
				r.t.Errorf("%s came after the moment %d", ev.ID, latest[object])
			}
			if !isRepeat && object == "tick/tick" {
				moments++
			}
			ids[key], latest[object] = delivered{d, ev.ID}, max(latest[object], moment)
		}
	}
	for object, moment := range latest {
		if swept := latest["sweep/"+r.swept[0]]; moment != swept && object != "tick/tick" {
			r.t.Errorf("the latest moment of %s is %d, and that of another one %d", object, moment, swept)
		}
	}
	r.t.Logf("%d moments by %d leaders", moments, len(r.daemons))
}
