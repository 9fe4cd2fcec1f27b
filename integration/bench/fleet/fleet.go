// Package fleet makes the objects of a large cluster that never was: Pods, Deployments and
// ConfigMaps of some two hundred applications, as a real API server sends them, for
// [apistub.Server.Synthesize].
//
// An object is a function of its number and of how many updates it has had, so nothing is kept of
// it. What is of an application (containers, environment, volumes, probes, labels) its pods have in
// common; what is a pod's own (name, uid, addresses, node, container IDs, times) differs as it does
// in a cluster, and is no easier to compress. Updates change what real ones change: conditions and
// their times, readiness, restarts and what they leave behind, sometimes the phase.
//
// Each object says when it was sent, in the annotation [SentAnnotation].
package fleet

import (
	"time"
)

// SentAnnotation is when an object was computed for sending, in Unix nanoseconds, 19 digits.
const SentAnnotation = "load.informd.dev/sent"

// The applications: each role of each team. A team has a namespace.
var (
	teams = []string{"shop", "pay", "search", "orders", "stock", "media", "login", "maps", "chat", "mail",
		"fraud", "price", "ads", "feeds", "audit", "bill", "crm", "bi", "ship", "core"}
	roles = []string{"web", "api", "edge", "proxy", "stream", // of the tier web
		"worker", "index", "cache", "sync", "push"} // backend
)

// Apps is how many applications there are, and Teams how many namespaces. Each namespace has as
// many applications.
var (
	Apps  = len(teams) * len(roles)
	Teams = len(teams)
)

// App is one application.
type App struct {
	Namespace, Name, Tier string
}

// AppAt is the a-th application.
func AppAt(a int) App {
	team, role := teams[a%len(teams)], a/len(teams)%len(roles)
	tier := "web"
	if role >= len(roles)/2 {
		tier = "backend"
	}
	return App{Namespace: team, Name: team + "-" + roles[role], Tier: tier}
}

// Namespace is that of the t-th team.
func Namespace(t int) string { return teams[t%len(teams)] }

// chance is what is arbitrary about something: a well-mixed function of what it is and of which of
// its properties is asked for.
func chance(what, property uint64) uint64 {
	z := what*0x9e3779b97f4a7c15 + property*0xd1b54a32d192ed03 + 0x8bb84b93962eacc9
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// The properties of a pod, deployment, config map or application that are left to chance.
const (
	propApp = iota + 1
	propNode
	propCreated
	propStage
	propDelay
	propUID
	propUIDToo
	propContainerID // and the fifteen after it: four words for each of four containers
	propOfApp       = 100
)

// began is when the cluster's oldest object was made.
var began = time.Date(2026, 1, 12, 6, 0, 0, 0, time.UTC)

// suffix is the i-th name suffix that Kubernetes could have generated. No two of the first 14
// million are the same.
func suffix(b []byte, i int) []byte {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	const all = 27 * 27 * 27 * 27 * 27
	n := (i*7_368_787 + 5_000_011) % all // 7,368,787 shares no factor with all, which is a power of 3
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

// uid is a random UUID, of version 4.
func uid(b []byte, what uint64) []byte {
	x, y := chance(what, propUID), chance(what, propUIDToo)
	b = append(hex(b, x>>32, 8), '-')
	b = append(hex(b, x>>16, 4), '-', '4')
	b = append(hex(b, x, 3), '-', "89ab"[y>>62])
	b = append(hex(b, y>>48, 3), '-')
	return hex(b, y, 12)
}

// digest is 64 hexadecimal digits, as of a SHA-256.
func digest(b []byte, what, property uint64) []byte {
	for word := range uint64(4) {
		b = hex(b, chance(what, property+word), 16)
	}
	return b
}

func timestamp(b []byte, t time.Time) []byte { return t.AppendFormat(b, time.RFC3339) }

// of is what is left to chance about an application.
func of(a int, property uint64) uint64 { return chance(uint64(a), propOfApp+property) }
