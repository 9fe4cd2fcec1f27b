// Package fleet generates the objects of a large cluster for [apistub.Server.Synthesize]: Pods,
// Deployments and ConfigMaps of some two hundred applications, as a real API server sends them.
//
// An object is a function of its number and of its number of updates, so the package stores no
// objects. The pods of an application share its containers, environment, volumes, probes and
// labels. Each pod has its own name, uid, addresses, node, container IDs and times, which are as
// hard to compress as real ones. Updates change what real ones change: conditions and their times,
// readiness, restarts and their traces, and sometimes the phase.
//
// Each object carries the time when it was sent in the annotation [SentAnnotation].
package fleet

import (
	"time"
)

// SentAnnotation is the annotation with the time when an object was generated for sending, in Unix
// nanoseconds, 19 digits. No two objects of a process have the same time, so it also tells updates
// apart.
const SentAnnotation = "load.informd.dev/sent"

// The applications: each role of each team. A team has a namespace.
var (
	teams = []string{
		"shop", "pay", "search", "orders", "stock", "media", "login", "maps", "chat", "mail",
		"fraud", "price", "ads", "feeds", "audit", "bill", "crm", "bi", "ship", "core",
	}
	roles = []string{"web", "api", "edge", "proxy", "stream", // of the tier web
		"worker", "index", "cache", "sync", "push"} // backend
)

// Apps is the number of applications, and Teams that of namespaces. All namespaces have the same
// number of applications.
var (
	Apps  = len(teams) * len(roles)
	Teams = len(teams)
)

// App is one application.
type App struct {
	Namespace, Name, Tier string
}

// AppAt returns the a-th application.
func AppAt(a int) App {
	team, role := teams[a%len(teams)], a/len(teams)%len(roles)
	tier := "web"
	if role >= len(roles)/2 {
		tier = "backend"
	}
	return App{Namespace: team, Name: team + "-" + roles[role], Tier: tier}
}

// Namespace returns the namespace of the t-th team.
func Namespace(t int) string { return teams[t%len(teams)] }

// chance returns a pseudorandom number for a property of something. The same arguments give the
// same number.
func chance(what, property uint64) uint64 {
	z := what*0x9e3779b97f4a7c15 + property*0xd1b54a32d192ed03 + 0x8bb84b93962eacc9
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// The properties of pods, deployments, config maps and applications that chance decides.
const (
	propApp = iota + 1
	propNode
	propCreated
	propStage
	propDelay
	propUID
	propUIDToo
	propContainerID // and the next fifteen: four words for each of four containers
	propOfApp       = 100
)

// began is the creation time of the cluster's oldest object.
var began = time.Date(2026, 1, 12, 6, 0, 0, 0, time.UTC)

// suffix appends the i-th name suffix of the kind that Kubernetes generates. The first 14 million
// are all different.
func suffix(b []byte, i int) []byte {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	const all = 27 * 27 * 27 * 27 * 27
	n := (i*7_368_787 + 5_000_011) % all // the factor is coprime to all, a power of 3
	for range 5 {
		b = append(b, letters[n%27])
		n /= 27
	}
	return b
}

const hexDigits = "0123456789abcdef"

// hex appends the last digits hexadecimal digits of n.
func hex(b []byte, n uint64, digits int) []byte {
	for d := digits - 1; d >= 0; d-- {
		b = append(b, hexDigits[n>>(4*d)&15])
	}
	return b
}

// uid appends a random UUID of version 4.
func uid(b []byte, what uint64) []byte {
	x, y := chance(what, propUID), chance(what, propUIDToo)
	b = append(hex(b, x>>32, 8), '-')
	b = append(hex(b, x>>16, 4), '-', '4')
	b = append(hex(b, x, 3), '-', "89ab"[y>>62])
	b = append(hex(b, y>>48, 3), '-')
	return hex(b, y, 12)
}

// digest appends 64 hexadecimal digits, like those of a SHA-256.
func digest(b []byte, what, property uint64) []byte {
	for word := range uint64(4) {
		b = hex(b, chance(what, property+word), 16)
	}
	return b
}

func timestamp(b []byte, t time.Time) []byte { return t.AppendFormat(b, time.RFC3339) }

// of returns a pseudorandom number for a property of application a.
func of(a int, property uint64) uint64 { return chance(uint64(a), propOfApp+property) }
