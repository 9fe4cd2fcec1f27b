package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// takeovers measures how long the deliveries of three replicas pause when the one that leads is
// lost, or hands over.
type takeovers struct {
	at    site
	scale scale
	turns []*takeoverTurn
}

// takeoverTurn holds the results with so many objects.
type takeoverTurn struct {
	objects, rounds int
	causes          []fault
	took            map[fault][]takeover
	joined          []join
	err             bool
}

// join is how a replica whose disk was emptied became one again.
type join struct {
	seconds float64 // from the start of its process until it votes and has what the leader has
	size    float64 // MB of its state then
	longest float64 // ms that an event took meanwhile, at most
}

// takeover is one of them, in seconds from the fault.
type takeover struct {
	first float64 // until the handler of the next leader gets an event
	fresh float64 // until it gets one of a change that was sent after the fault
}

// fault is what ends the leadership of a replica.
type fault string

const (
	killed   fault = "kill -9 of the leader"
	stopped  fault = "SIGSTOP of the leader"
	handOver fault = "informd cluster hand-over"

	// takeoverRate is how many objects change per second meanwhile.
	takeoverRate = 200
)

func newTakeovers(at site, s scale) section {
	rounds, causes := max(1, min(5, s.updates/3000)), []fault{killed, stopped, handOver}
	if s.isTiny() {
		causes = []fault{killed, handOver}
	}
	t := &takeovers{at: at, scale: s}
	t.turns = append(t.turns, &takeoverTurn{objects: max(2, s.objects/20), rounds: rounds})
	if s.listed() >= 10_000 {
		t.turns = append(t.turns, &takeoverTurn{objects: s.listed(), rounds: max(1, rounds-2)})
	}
	if s.full {
		t.turns = append(t.turns, &takeoverTurn{objects: 50 * s.objects, rounds: 1})
	}
	for _, turn := range t.turns {
		turn.causes, turn.took = causes, make(map[fault][]takeover)
	}
	return t
}

func (t *takeovers) jobs() (jobs []job) {
	for _, turn := range t.turns {
		jobs = append(jobs, job{once: true,
			name: fmt.Sprintf("replicas: takeover with %d objects", turn.objects),
			do: func(ctx context.Context) error {
				err := t.measure(ctx, turn)
				turn.err = turn.err || err != nil
				return err
			}})
	}
	return jobs
}

func (t *takeovers) measure(ctx context.Context, turn *takeoverTurn) (err error) {
	l, err := startLoad(ctx, t.at, onlyPods(turn.objects))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	three, err := startTrio(ctx, t.at, l, setup{
		handlers: 1, events: []string{"updated"}, handler: handlerConfig{Arrivals: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, three.stop()) }()
	if _, err := three.leads(ctx); err != nil {
		return err
	}
	if _, err := l.ask(question{Ask: askBusy, Resource: pods, Rate: takeoverRate}); err != nil {
		return err
	}
	for range turn.rounds {
		for _, cause := range turn.causes {
			took, err := three.takeOver(ctx, cause)
			if err != nil {
				return fmt.Errorf("%s: %w", cause, err)
			}
			turn.took[cause] = append(turn.took[cause], took)
		}
		j, err := three.join(ctx)
		if err != nil {
			return fmt.Errorf("a replica whose disk is emptied: %w", err)
		}
		turn.joined = append(turn.joined, j)
	}
	return nil
}

// join ends a member that follows, empties its disk, and waits until it is one of three again.
func (t *trio) join(ctx context.Context) (j join, err error) {
	leader, err := t.leads(ctx)
	if err != nil {
		return j, err
	}
	if err := pause(ctx, t.at.rest); err != nil {
		return j, err
	}
	m := t.members[0]
	if m == leader {
		m = t.members[1]
	}
	handler := newAsked("handler", leader.conns[len(leader.conns)-1])
	if err := m.cmd.Process.Kill(); err != nil {
		return j, err
	}
	<-m.ended
	if err := os.RemoveAll(m.how.state); err != nil {
		return j, err
	}
	if _, err := handler.ask(question{Ask: askArrivals}); err != nil { // those before
		return j, err
	}
	began := time.Now()
	if err := t.restart(ctx, m); err != nil {
		return j, err
	}
	now, err := t.leads(ctx)
	if err != nil {
		return j, err
	}
	if now != leader {
		return j, errors.New("another replica leads meanwhile")
	}
	j.seconds = time.Since(began).Seconds()
	a, err := handler.ask(question{Ask: askArrivals})
	if err != nil {
		return j, err
	}
	for _, one := range a.Arrivals {
		j.longest = max(j.longest, float64(one.Came-one.Sent)/1e6)
	}
	bytes, err := diskUsed(m.how.state)
	j.size = float64(bytes) / 1e6
	return j, err
}

// diskUsed returns how many bytes the files in dir take on the disk. Some may go meanwhile.
func diskUsed(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreGone(err)
		}
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return bytes, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// takeOver ends the leadership of the member that leads, and waits until the handler of another one
// gets events. Afterwards all members run again.
func (t *trio) takeOver(ctx context.Context, cause fault) (took takeover, err error) {
	former, err := t.leads(ctx)
	if err != nil {
		return took, err
	}
	if err := pause(ctx, t.at.rest); err != nil {
		return took, err
	}
	for len(t.came) > 0 { // of former leaders
		c := <-t.came
		c.of.conns = append(c.of.conns, c.conn)
	}
	at, process := time.Now(), former.cmd.Process
	switch cause {
	case killed:
		err = process.Kill()
	case stopped:
		err = process.Signal(syscall.SIGSTOP)
	case handOver:
		var out []byte
		out, err = exec.CommandContext(ctx, t.at.informd, "cluster", "hand-over",
			"--state-dir", former.state).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err == nil {
		took, err = t.events(ctx, former, at)
	}
	switch cause {
	case killed:
		<-former.ended
		for _, conn := range former.conns {
			_ = conn.Close()
		}
		err = errors.Join(err, t.restart(ctx, former))
	case stopped:
		err = errors.Join(err, process.Signal(syscall.SIGCONT))
	}
	return took, err
}

// events waits for the handler of another member than the former leader, and returns how long
// after a time it got events.
func (t *trio) events(
	ctx context.Context, former *member, at time.Time) (took takeover, err error) {
	var handler *asked
	for {
		select {
		case c := <-t.came:
			c.of.conns = append(c.of.conns, c.conn)
			if c.of != former {
				handler = newAsked("handler", c.conn)
			}
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return took, ctx.Err()
		}
		if time.Since(at) > patience {
			return took, fmt.Errorf("the handler of another replica has got nothing for %v", patience)
		}
		if handler == nil {
			continue
		}
		a, err := handler.ask(question{Ask: askArrivals})
		if err != nil { // that one does not lead any more either
			handler = nil
			continue
		}
		for _, one := range a.Arrivals {
			came := time.Unix(0, one.Came).Sub(at).Seconds()
			if took.first == 0 {
				took.first = came
			}
			if one.Sent > at.UnixNano() {
				took.fresh = came
				return took, nil
			}
		}
	}
}

func (t *takeovers) report() (table, []target) {
	rows := [][]string{{
		"", "s until an event, p50", "worst", "until one of a change after the fault, p50", "worst",
		"of them",
	}}
	var targets []target
	for _, turn := range t.turns {
		for _, cause := range turn.causes {
			all := turn.took[cause]
			if turn.err {
				all = nil
			}
			row := []string{fmt.Sprintf("%d objects, %s", turn.objects, cause)}
			worst := 0.
			for _, of := range []func(takeover) float64{
				func(t takeover) float64 { return t.first }, func(t takeover) float64 { return t.fresh },
			} {
				if len(all) == 0 {
					row = append(row, "ERROR", "ERROR")
					continue
				}
				values := sorted(all, of)
				worst = values[len(values)-1]
				row = append(row, fmt.Sprintf("%.2f", median(all, of)), fmt.Sprintf("%.2f", worst))
			}
			rows = append(rows, append(row, fmt.Sprint(turn.rounds)))
			if limit := takeoverLimit(turn.objects, cause); limit > 0 {
				targets = append(targets, target{
					what: fmt.Sprintf("s until an event of a change after %s, with %d objects",
						cause, turn.objects),
					limit: limit, value: worst, err: len(all) == 0, from: "the worst",
				})
			}
		}
	}
	rows = append(rows, []string{""}, []string{
		"a replica whose disk was emptied", "s until it votes and has all, p50", "worst",
		"ms that an event took meanwhile, at most", "MB of its state", "of them",
	})
	for _, turn := range t.turns {
		row := []string{fmt.Sprintf("%d objects", turn.objects)}
		if turn.err || len(turn.joined) == 0 {
			rows = append(rows, append(row, "ERROR"))
			continue
		}
		seconds := func(j join) float64 { return j.seconds }
		longest := sorted(turn.joined, func(j join) float64 { return j.longest })
		all := sorted(turn.joined, seconds)
		rows = append(rows, append(row, fmt.Sprintf("%.1f", median(turn.joined, seconds)),
			fmt.Sprintf("%.1f", all[len(all)-1]), fmt.Sprintf("%.0f", longest[len(longest)-1]),
			fmt.Sprintf("%.0f", median(turn.joined, func(j join) float64 { return j.size })),
			fmt.Sprint(turn.rounds)))
	}
	title := fmt.Sprintf("Three replicas on the same machine, of which the leader is lost or hands "+
		"over: from then until the next leader's handler gets an event; %d objects change per second",
		takeoverRate)
	return table{title, rows}, targets
}

// takeoverLimit returns the target in seconds, or 0 if there is none.
func takeoverLimit(objects int, cause fault) float64 {
	switch {
	case objects < 100_000:
		return 0
	case objects > 100_000:
		return 15
	case cause == handOver:
		return 3
	}
	return 8
}
