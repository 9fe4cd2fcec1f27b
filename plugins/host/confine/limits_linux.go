package confine

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	minMemory = 8 << 20 // bytes; with less, larger programs do not even reach their first line
	minFiles  = 16      // standard streams, socket, connections, and what a runtime opens itself
)

// enforcement is how limits are enforced.
type enforcement struct {
	group            *group // nil: none
	rlimits          []rlimit
	byGroup, byLimit []string // names of limits, for people
}

func (e *enforcement) says() []string {
	var says []string
	if len(e.byGroup) > 0 {
		says = append(says, strings.Join(e.byGroup, ", ")+" by cgroup v2")
	}
	if len(e.byLimit) > 0 {
		says = append(says, strings.Join(e.byLimit, ", ")+" by rlimit")
	}
	return says
}

// limits decides how to enforce l: with cgroup v2 where the daemon may create cgroups with the
// right controller, and with rlimits otherwise. The handler runs as uid.
func (m machine) limits(l Limits, uid int, name string) (*enforcement, error) {
	refuse := func(what, format string, args ...any) (*enforcement, error) {
		return nil, &Error{"limits." + what, fmt.Errorf(format, args...)}
	}
	switch {
	case l.Memory < 0 || l.Memory > 0 && l.Memory < minMemory:
		return refuse("memory", "%d bytes are less than a program needs to start: "+
			"allow at least %d", l.Memory, minMemory)
	case l.CPU < 0:
		return refuse("cpu", "is negative")
	case l.Files < 0 || l.Files > 0 && l.Files < minFiles:
		return refuse("files", "%d are fewer than a program needs to start: "+
			"allow at least %d", l.Files, minFiles)
	case l.Processes < 0:
		return refuse("processes", "is negative")
	}

	e := new(enforcement)
	if l.Files > 0 {
		e.rlimits = append(e.rlimits, rlimit{unix.RLIMIT_NOFILE, uint64(l.Files)})
		e.byLimit = append(e.byLimit, "files")
	}
	settings := groupSettings(l)
	var why map[string]error // by controller
	if len(settings) > 0 {
		e.group, why = m.group(name, settings)
	}
	if l.Memory > 0 {
		if why["memory"] == nil {
			e.byGroup = append(e.byGroup, "memory")
		} else {
			e.rlimits = append(e.rlimits, rlimit{unix.RLIMIT_DATA, uint64(l.Memory)})
			e.byLimit = append(e.byLimit, "memory (of each process, shared memory not counted)")
		}
	}
	var missing []*Error
	if l.CPU > 0 {
		if why["cpu"] == nil {
			e.byGroup = append(e.byGroup, "cpu")
		} else {
			err := fmt.Errorf("cannot be enforced here: %w; give the daemon a cgroup v2 "+
				"with the cpu controller (systemd: Delegate=yes), or leave limits.cpu out",
				why["cpu"])
			missing = append(missing, &Error{"limits.cpu", err})
		}
	}
	if l.Processes > 0 {
		switch {
		case why["pids"] == nil:
			e.byGroup = append(e.byGroup, "processes")
		case uid == m.uid:
			err := fmt.Errorf("cannot be enforced here: %w; give the daemon a cgroup v2 "+
				"with the pids controller (systemd: Delegate=yes), or the handler a user "+
				"of its own, or leave limits.processes out", why["pids"])
			missing = append(missing, &Error{"limits.processes", err})
		default:
			e.rlimits = append(e.rlimits, rlimit{unix.RLIMIT_NPROC, uint64(l.Processes)})
			e.byLimit = append(e.byLimit, "processes (of the user)")
		}
	}
	if err := refusal(missing); err != nil {
		if e.group != nil {
			_ = e.group.close() // nobody was in it
		}
		return nil, err
	}
	return e, nil
}

// setting is a value for one file of a cgroup.
type setting struct {
	file, value string
	optional    bool // a kernel without the file has nothing to limit
}

// groupSettings returns the settings for l, by controller.
func groupSettings(l Limits) map[string][]setting {
	s := make(map[string][]setting)
	if l.Memory > 0 {
		page := int64(unix.Getpagesize())
		s["memory"] = []setting{
			{file: "memory.max", value: fmt.Sprint(l.Memory / page * page)},
			{file: "memory.swap.max", value: "0", optional: true},
			{file: "memory.oom.group", value: "1"},
		}
	}
	if l.CPU > 0 {
		// The quota is at least a millisecond.
		period := int64(100_000)
		if l.CPU < 10 {
			period = 1_000_000
		}
		value := fmt.Sprintf("%d %d", l.CPU*period/1000, period)
		s["cpu"] = []setting{{file: "cpu.max", value: value}}
	}
	if l.Processes > 0 {
		s["pids"] = []setting{{file: "pids.max", value: fmt.Sprint(l.Processes)}}
	}
	return s
}

// group creates a cgroup with the settings of all controllers that are available. For each other
// controller it returns why it is not. The group is nil if none is available.
func (m machine) group(name string, settings map[string][]setting) (*group, map[string]error) {
	why := make(map[string]error)
	t, err := m.tree()
	for controller := range settings {
		cause := err
		if cause == nil {
			cause = t.enable(controller)
		}
		if cause != nil {
			why[controller] = cause
		}
	}
	var all []setting
	for controller, s := range settings {
		if why[controller] == nil {
			all = append(all, s...)
		}
	}
	if len(all) == 0 {
		return nil, why
	}
	g, err := t.create(name, all)
	if err != nil {
		for controller := range settings {
			if why[controller] == nil {
				why[controller] = err
			}
		}
		return nil, why
	}
	return g, why
}
