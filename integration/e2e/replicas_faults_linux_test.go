package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// fault is something that befalls replicas.
type fault struct {
	name string
	// begin does the harm to one of two replicas, and returns what ends it, or nil.
	begin func(u *unlucky, leader, follower *replicaUnderTest) (end func())
	// deposes means that another replica leads before the harm ends. keeps means that some does.
	deposes, keeps bool
	// loses means that a replica loses what it has: two of three that do so end the cluster.
	loses bool
	// mayEnd means that replicas may end by themselves because of it.
	mayEnd bool
	// setsClock means that it sets a clock, which is not possible everywhere.
	setsClock bool
	// long is how long the harm lasts in make soak at most.
	long time.Duration
}

// faults are all kinds.
var faults = []fault{
	{name: "kill the leader", deposes: true,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() { return u.killed(leader) }},
	{name: "kill a follower", keeps: true,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() { return u.killed(follower) }},
	{name: "kill two",
		begin: func(u *unlucky, leader, follower *replicaUnderTest) func() {
			return u.killed(leader, follower)
		}},
	{name: "kill all",
		begin: func(u *unlucky, _, _ *replicaUnderTest) func() { return u.killed(u.replicas...) }},
	{name: "stop the leader", deposes: true, mayEnd: true, long: 30 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() { return u.stopped(leader) }},
	{name: "stop a follower", keeps: true, long: 30 * time.Second,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() { return u.stopped(follower) }},
	{name: "part the leader", deposes: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() {
			return u.parted(leader, true, true)
		}},
	{name: "nobody hears the leader", deposes: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() {
			return u.parted(leader, true, false)
		}},
	{name: "the leader hears nobody", deposes: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() {
			return u.parted(leader, false, true)
		}},
	{name: "part a follower", keeps: true, long: 20 * time.Second,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() {
			return u.partedSomehow(follower)
		}},
	{name: "part leader and follower", keeps: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, follower *replicaUnderTest) func() {
			u.network.cut(leader.name, follower.name)
			return u.heal
		}},
	{name: "part the leader from the API server", long: 40 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() { return u.blinded(leader) }},
	{name: "the leader's disk hangs", deposes: true, mayEnd: true, long: 20 * time.Second,
		begin: func(_ *unlucky, leader, _ *replicaUnderTest) func() { return leader.disk.hang() }},
	{name: "a follower's disk hangs", keeps: true, mayEnd: true, long: 20 * time.Second,
		begin: func(_ *unlucky, _, follower *replicaUnderTest) func() { return follower.disk.hang() }},
	{name: "the leader's disk is full", deposes: true, mayEnd: true, long: 10 * time.Second,
		begin: func(_ *unlucky, leader, _ *replicaUnderTest) func() { return leader.disk.fill() }},
	{name: "a follower's disk is full", keeps: true, mayEnd: true, long: 10 * time.Second,
		begin: func(_ *unlucky, _, follower *replicaUnderTest) func() { return follower.disk.fill() }},
	{name: "the leader's disk is slow", mayEnd: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() { return u.slowed(leader) }},
	{name: "a follower's disk is slow", keeps: true, mayEnd: true, long: 20 * time.Second,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() { return u.slowed(follower) }},
	{name: "the leader's clock is set forward", keeps: true, setsClock: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() {
			return u.clockSet(leader, time.Hour, 2*time.Hour)
		}},
	{name: "the leader's clock is set back", keeps: true, setsClock: true, long: 20 * time.Second,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() {
			return u.clockSet(leader, -time.Hour, -time.Minute) // certificates are an hour old
		}},
	{name: "a follower's clock is set forward", keeps: true, setsClock: true, long: 20 * time.Second,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() {
			return u.clockSet(follower, time.Hour, 2*time.Hour)
		}},
	{name: "a follower's clock is set back", keeps: true, setsClock: true, long: 20 * time.Second,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() {
			return u.clockSet(follower, -time.Hour, -time.Minute)
		}},
	{name: "wipe the leader's disk", loses: true, deposes: true,
		begin: func(u *unlucky, leader, _ *replicaUnderTest) func() { return u.wiped(leader) }},
	{name: "wipe a follower's disk", loses: true, keeps: true,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() { return u.wiped(follower) }},
	{name: "a bit of the state flips", loses: true, keeps: true, mayEnd: true,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() {
			return u.flipped(follower, "store/cuts-*")
		}},
	{name: "a bit of raft's log flips", loses: true, keeps: true, mayEnd: true,
		begin: func(u *unlucky, _, follower *replicaUnderTest) func() {
			return u.flipped(follower, "raft/raft/*.wal")
		}},
}

// unlucky are replicas that faults befall.
type unlucky struct {
	*replicated
	rows     []row
	isolated []isolation
}

// row is what a fault came to.
type row struct {
	name      string
	from      time.Time
	ready     time.Duration // until a replica led and was ready
	isAnother bool          // it was another one than before
	whole     time.Duration // until all replicas were ready
	first     time.Duration // until the first event of a new leader; 0: there was none
}

// isolation is a time in which a replica could learn of nothing that the others agreed to.
type isolation struct {
	start    int // of the replica
	from, to time.Time
}

// startUnlucky starts replicas with disks and links of their own.
func startUnlucky(t *testing.T, seed uint64, work workload) *unlucky {
	t.Helper()
	return &unlucky{replicated: startReplicated(t, seed, work, newDisk)}
}

// mend ends all harm, so that processes can be killed.
func (u *unlucky) mend() {
	if u.network != nil {
		u.heal()
	}
	for _, one := range u.replicas {
		if one.disk != nil {
			_ = freezing(one.disk.dir, unfreeze) // it fails if the disk is not frozen
		}
	}
}

func (u *unlucky) killed(some ...*replicaUnderTest) (end func()) {
	some = slices.Clone(some)
	for _, i := range u.random.Perm(len(some)) {
		u.kill(some[i])
	}
	return func() {
		for _, i := range u.random.Perm(len(some)) {
			u.pause(300 * time.Millisecond)
			if some[i].daemon == nil {
				u.start(some[i])
			}
		}
	}
}

// stopped stops a replica, and half of the time its handlers, as a machine that is paused.
func (u *unlucky) stopped(one *replicaUnderTest) (end func()) {
	pids := []int{one.daemon.Cmd.Process.Pid}
	if u.random.IntN(2) == 0 {
		pids = append(pids, harness.Descendants(pids[0])...)
	}
	one.isStopped = true
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // a handler may be gone
	}
	daemon := one.daemon
	return func() {
		if one.daemon != daemon {
			return // it was killed meanwhile
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		one.isStopped = false
	}
}

// parted parts a replica from the others: what it sends, or what they send, or both.
func (u *unlucky) parted(one *replicaUnderTest, out, in bool) (end func()) {
	cuts := out && in && u.random.IntN(2) == 0
	for _, other := range u.replicas {
		switch {
		case other == one:
			continue
		case cuts:
			u.network.cut(one.name, other.name)
			continue
		}
		if out {
			u.network.silence(one.name, other.name)
		}
		if in {
			u.network.silence(other.name, one.name)
		}
	}
	is := isolation{start: u.starts[one.name], from: time.Now()}
	return func() {
		is.to = time.Now()
		u.isolated = append(u.isolated, is)
		u.heal()
	}
}

func (u *unlucky) partedSomehow(one *replicaUnderTest) (end func()) {
	ways := [][2]bool{{true, true}, {true, false}, {false, true}}[u.random.IntN(3)]
	return u.parted(one, ways[0], ways[1])
}

// blinded parts a replica from the API server.
func (u *unlucky) blinded(one *replicaUnderTest) (end func()) {
	if u.random.IntN(2) == 0 {
		u.network.cut(one.name, apiServer)
	} else {
		u.network.silence(one.name, apiServer)
		u.network.silence(apiServer, one.name)
	}
	return u.heal
}

func (u *unlucky) heal() { u.network.heal(u.random.IntN(2) == 0) }

// slowed makes a disk slow: each write takes up to so long.
func (u *unlucky) slowed(one *replicaUnderTest) (end func()) {
	return one.disk.slow(50*time.Millisecond + time.Duration(u.random.Int64N(int64(time.Second))))
}

// clockSet sets the clock of a replica, between two limits, until the end. Its handlers keep theirs.
func (u *unlucky) clockSet(one *replicaUnderTest, least, most time.Duration) (end func()) {
	daemon := one.daemon
	if daemon == nil || hasEnded(daemon) {
		return nil // another fault has killed it
	}
	ahead := least + time.Duration(u.random.Int64N(int64(most-least)))
	harness.SetClock(u.t, daemon.Cmd.Process.Pid, ahead)
	return func() {
		if one.daemon == daemon && !hasEnded(daemon) {
			harness.SetClock(u.t, daemon.Cmd.Process.Pid, 0)
		}
	}
}

// wiped kills a replica and removes what is on its disk.
func (u *unlucky) wiped(one *replicaUnderTest) (end func()) {
	end = u.killed(one)
	one.disk.wipe()
	return end
}

// flipped kills a replica and flips a bit in one of its files.
func (u *unlucky) flipped(one *replicaUnderTest, pattern string) (end func()) {
	end = u.killed(one)
	paths, _ := filepath.Glob(filepath.Join(one.dir, pattern))
	if len(paths) == 0 {
		u.t.Errorf("replica %s has no %s", one.name, pattern)
		return end
	}
	path := paths[u.random.IntN(len(paths))]
	content, err := os.ReadFile(path)
	if err != nil {
		u.t.Error(err)
		return end
	}
	used := len(bytes.TrimRight(content, "\x00")) // files of raft have room behind what they hold
	if used == 0 {
		return end
	}
	at, bit := u.random.IntN(used), u.random.IntN(8)
	content[at] ^= 1 << bit
	if err := os.WriteFile(path, content, 0o600); err != nil {
		u.t.Error(err)
	}
	u.t.Logf("flipped bit %d at %d of %d bytes of %s of replica %s", bit, at, used,
		filepath.Base(path), one.name)
	return end
}

// led notes that a replica leads and is ready after a fault.
func (is *row) led(former, now *replicaUnderTest) {
	is.ready, is.isAnother = time.Since(is.from), now != former
}

// befall lets faults befall the replicas at the same time, and waits until all is well again.
func (u *unlucky) befall(some ...fault) {
	u.t.Helper()
	leader := u.awaitAll()
	u.pause(time.Second)
	var names []string
	isOne, long := len(some) == 1, time.Duration(0)
	for _, f := range some {
		names = append(names, f.name)
		u.mayEnd, long = u.mayEnd || f.mayEnd, max(long, f.long)
	}
	is := row{name: strings.Join(names, " + "), from: time.Now()}
	var ends []func()
	for _, f := range some {
		follower := u.follower(leader)
		if end := f.begin(u, leader, follower); end != nil {
			ends = append(ends, end)
		}
	}
	switch {
	case isOne && some[0].deposes:
		is.led(leader, u.awaitLeaderBut(leader))
	case isOne && some[0].keeps:
		is.led(leader, u.awaitLeader())
	}
	u.last(is.from, long)
	for _, end := range ends {
		end()
	}
	ended := time.Now()
	if is.ready == 0 {
		is.led(leader, u.awaitLeader())
	}
	now := u.awaitAll()
	is.whole = time.Since(is.from)
	if since := time.Since(ended); since > 10*time.Second {
		u.t.Logf("all replicas were ready %v after the end of it", since.Round(time.Millisecond))
		for _, one := range u.replicas {
			log := one.daemon.Logged()
			u.t.Logf("replica %s:\n%s", one.name, log[max(0, len(log)-4000):])
		}
	}
	u.mayEnd = false
	if strings.Contains(is.name, "flips") {
		u.noteDamage()
	}
	u.ready = append(u.ready, time.Now())
	u.trial.Crashes = append(u.trial.Crashes, ledger.Crash{From: is.from, To: time.Now()})
	u.rows = append(u.rows, is)
	u.t.Logf("%s: %s led and was ready after %v, all after %v", is.name, now.name,
		is.ready.Round(time.Millisecond), is.whole.Round(time.Millisecond))
}

// noteDamage logs what the replicas say of damage. They notice it when they read what is damaged.
func (u *unlucky) noteDamage() {
	for _, one := range u.replicas {
		for line := range strings.Lines(one.daemon.Logged()) {
			if strings.Contains(line, "damaged") || strings.Contains(line, "cannot be used") {
				u.t.Logf("replica %s says: %.300s", one.name, line)
			}
		}
	}
}

func (u *unlucky) follower(leader *replicaUnderTest) *replicaUnderTest {
	for {
		if one := u.replicas[u.random.IntN(len(u.replicas))]; one != leader {
			return one
		}
	}
}

// last waits until harm has lasted long enough.
func (u *unlucky) last(from time.Time, long time.Duration) {
	if long == 0 {
		return
	}
	least := min(long, 4*time.Second)
	if harness.Soak() {
		least += time.Duration(u.random.Int64N(int64(long - least + 1)))
	}
	time.Sleep(time.Until(from.Add(least)))
}

// wantNothingUncommitted checks that no isolated replica has sent an event of a write that began
// after it was isolated: it cannot have been agreed on.
func (u *unlucky) wantNothingUncommitted() {
	u.t.Helper()
	sent := make(map[ledger.Key]map[int64]time.Time)
	for key, lives := range u.trial.History {
		sent[key] = make(map[int64]time.Time)
		for _, life := range lives {
			for _, state := range life.States {
				sent[key][state.Version] = state.Sent
			}
		}
	}
	events := 0
	for _, is := range u.isolated {
		for _, ev := range u.recorded.events {
			if ev.Run != is.start || ev.At.Before(is.from) || ev.At.After(is.to) {
				continue
			}
			events++
			if at, known := sent[ev.Key][ev.Version]; known && at.After(is.from) {
				u.t.Errorf("replica %s was isolated from %v on, and sent %s of a write of %v",
					u.names[is.start], is.from, ev.ID, at)
			}
		}
	}
	u.t.Logf("%d isolations, in which %d events were sent", len(u.isolated), events)
}

// unwritten is how long a leader that nobody answers, or whose disk hangs, may send events whose
// answers are never agreed on: a second until it notices, and half a second until its lease ends.
const unwritten = 1500 * time.Millisecond

// stillness is how long the handler of a leader that works gets no event, at most. A longer one means
// that the leader was stopped meanwhile, and agreed on nothing.
const stillness = time.Second

// wantOnlyTheLast checks that a process of a handler repeats only what came last to the process
// before it. The ledger allows that for all of a fault's time.
func (u *unlucky) wantOnlyTheLast() {
	u.t.Helper()
	byProcess, told := make(map[process][]ledger.Event), make(map[string]ledger.Event)
	for _, ev := range u.recorded.events {
		byProcess[processOf(ev)] = append(byProcess[processOf(ev)], ev)
	}
	repeats, oldest := 0, time.Duration(0)
	for _, ev := range u.recorded.events {
		before, isRepeat := told[ev.ID]
		told[ev.ID] = ev
		if !isRepeat || processOf(before) == processOf(ev) {
			continue
		}
		repeats++
		began, last, age := byProcess[processOf(ev)][0].At, before.At, time.Duration(0)
		for _, other := range byProcess[processOf(before)] { // in order
			if other.At.Before(began) && other.At.After(last) {
				age += min(other.At.Sub(last), stillness)
				last = other.At
			}
		}
		if oldest = max(oldest, age); age > u.trial.Unwritten {
			u.t.Errorf("%s came again, although the handler got events for %v after it", ev.ID, age)
		}
	}
	u.t.Logf("%d events came to another process again, the oldest %v before the last one of the "+
		"process before", repeats, oldest.Round(time.Millisecond))
}

// wantSameLogs checks that the files of the log that several replicas have are the same. Each
// replica removes full ones in its own time.
func (u *unlucky) wantSameLogs() {
	u.t.Helper()
	has := make(map[string]map[string][]byte)
	for _, one := range u.replicas {
		paths, _ := filepath.Glob(filepath.Join(one.dir, "store/cuts-*"))
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was moved just now
			}
			if err != nil {
				u.t.Fatal(err)
			}
			name := filepath.Base(path)
			if has[name] == nil {
				has[name] = make(map[string][]byte)
			}
			has[name][one.name] = content
		}
	}
	compared := 0
	for name, contents := range has {
		for a, first := range contents {
			for b, second := range contents {
				if n := min(len(first), len(second)); a < b {
					compared++
					if !bytes.Equal(first[:n], second[:n]) {
						u.t.Errorf("%s is not the same on %s, %d bytes, and %s, %d bytes", name, a, len(first),
							b, len(second))
					}
				}
			}
		}
	}
	if compared == 0 {
		u.t.Error("the replicas have no file of the log in common")
	}
}

// finish compares the ledgers and everything else, and logs the table.
func (u *unlucky) finish() {
	u.t.Helper()
	u.settle()
	u.wantSameLogs()
	u.judge()
	u.wantNothingUncommitted()
	u.wantOnlyTheLast()
	u.noteFirstEvents()
	u.t.Logf("replicas ended by themselves %d times\n%s", u.ended, table(u.rows))
}

// noteFirstEvents notes when the first event came after a fault, if it came to another process of a
// handler than before.
func (u *unlucky) noteFirstEvents() {
	first := make(map[process]time.Time)
	for _, ev := range u.recorded.events {
		if at, known := first[processOf(ev)]; !known || ev.At.Before(at) {
			first[processOf(ev)] = ev.At
		}
	}
	for i := range u.rows {
		is := &u.rows[i]
		for _, at := range first {
			took, isNext := at.Sub(is.from), i+1 < len(u.rows) && at.After(u.rows[i+1].from)
			if took > 0 && !isNext && (is.first == 0 || took < is.first) {
				is.first = took
			}
		}
	}
}

// table returns a line for each kind of fault.
func table(rows []row) string {
	kinds := make(map[string][]row)
	for _, is := range rows {
		kinds[is.name] = append(kinds[is.name], is)
	}
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "| %-40s | times | takeovers | leader ready | first event | all ready |\n",
		"fault")
	fmt.Fprintf(&b, "| %s | ---: | ---: | ---: | ---: | ---: |\n", strings.Repeat("-", 40))
	for _, name := range names {
		takeovers := 0
		for _, is := range kinds[name] {
			if is.isAnother {
				takeovers++
			}
		}
		fmt.Fprintf(&b, "| %-40s | %d | %d | %s | %s | %s |\n", name, len(kinds[name]), takeovers,
			spread(kinds[name], func(is row) time.Duration { return is.ready }),
			spread(kinds[name], func(is row) time.Duration { return is.first }),
			spread(kinds[name], func(is row) time.Duration { return is.whole }))
	}
	return b.String()
}

// spread returns the median and the longest of what rows have, without zeros.
func spread(rows []row, of func(row) time.Duration) string {
	var all []time.Duration
	for _, is := range rows {
		if of(is) > 0 {
			all = append(all, of(is).Round(10*time.Millisecond))
		}
	}
	slices.SortFunc(all, cmp.Compare)
	switch len(all) {
	case 0:
		return "–"
	case 1:
		return all[0].String()
	}
	return fmt.Sprintf("%v, at most %v", all[len(all)/2], all[len(all)-1])
}

// possibleFaults returns the faults with part in their names that are possible here.
func possibleFaults(part string) (kinds []fault) {
	canSetClock := harness.CanSetClock()
	for _, f := range faults {
		if strings.Contains(f.name, part) && (canSetClock || !f.setsClock) {
			kinds = append(kinds, f)
		}
	}
	return kinds
}

// TestReplicasUnderFaults lets random faults befall three replicas: no event is lost, out of order
// or untrue, and what is repeated was in flight. Every kind of fault comes before one comes again.
// INFORMD_FAULTS, a part of a name, chooses kinds.
func TestReplicasUnderFaults(t *testing.T) {
	t.Parallel()
	seed := harness.Seed(t)
	trials, count, work := 1, 15, workload{objects: 400, pace: 80 * time.Millisecond}
	if harness.Soak() { // 1,000 events a second
		trials, count, work = 8, 25, workload{objects: 1000, pace: 24 * time.Millisecond}
	}
	kinds := possibleFaults(os.Getenv("INFORMD_FAULTS"))
	if len(kinds) == 0 {
		t.Skip("none of these faults is possible here")
	}
	var deck []fault
	for trial := range trials {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			stalls := harness.Stalls(t)
			random := rand.New(rand.NewPCG(seed, uint64(trial)))
			u := startUnlucky(t, seed+uint64(trial), work)
			defer u.mend()
			u.run(seed)
			draw := func() fault {
				if len(deck) == 0 {
					deck = slices.Clone(kinds)
					random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
				}
				f := deck[0]
				deck = deck[1:]
				return f
			}
			for range count {
				some := []fault{draw()}
				if harness.Soak() && random.IntN(5) == 0 {
					if f := draw(); !f.loses || !some[0].loses {
						some = append(some, f)
					}
				}
				u.befall(some...)
				if t.Failed() {
					return
				}
			}
			u.trial.Unwritten = harness.Unwritten + unwritten + stalls()
			u.finish()
		})
	}
}
