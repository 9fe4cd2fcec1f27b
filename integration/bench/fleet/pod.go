package fleet

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Pod is the state of a pod, computed without its JSON.
type Pod struct {
	App
	Node     string
	Phase    string // Pending or Running
	Ready    bool   // the condition Ready, and the first container's state
	Restarts int    // of its first container; the others never restart

	age int // stages of its life that have passed; -1 while it is pending
}

// The stages of a running pod's life repeat. Only the last one has a name.
const (
	stages  = 8
	crashed = stages - 1
)

// PodAt returns the i-th pod after the given number of updates. One pod in ten begins as pending
// and runs from its first update on. Each further update makes a pod unready, or ready again. The
// last unready stage of each cycle is a crash.
func PodAt(i, updates int) Pod {
	p := Pod{App: AppAt(podApp(i)), Node: Node(podNode(i)), Phase: "Pending", age: updates - 1}
	if c := chance(uint64(i), propStage); c>>32%10 > 0 {
		p.age = updates + 2*int(c%3)
	}
	if p.age >= 0 {
		p.Phase = "Running"
		p.Ready = p.age%2 == 0
		p.Restarts = (p.age + 1) / stages
	}
	return p
}

func podApp(i int) int { return int(chance(uint64(i), propApp) % uint64(Apps)) }

// Nodes is the number of nodes.
const Nodes = 500

// Node returns the name of the n-th node.
func Node(n int) string { return string(appendNode(nil, n)) }

func podNode(i int) int { return int(chance(uint64(i), propNode) % Nodes) }

func appendNode(b []byte, n int) []byte {
	return strconv.AppendInt(append(b, "node-"...), int64(1000+n), 10)
}

// Pods generates pods.
type Pods struct {
	n    int
	apps []podTemplates
	sets []labels.Set
}

// podTemplates holds the templates of one application's pods.
type podTemplates struct {
	prefix           string // of names
	pending, crashed template
	running          [2][2]template // not ready or ready; never restarted or restarted
}

// NewPods returns n pods, at most 14 million.
func NewPods(n int) *Pods {
	p := &Pods{n: n}
	for a := range Apps {
		m := newPodMaker(a)
		t := podTemplates{
			prefix:  m.prefix,
			pending: newTemplate(m.pod(Pod{age: -1})),
			crashed: newTemplate(m.pod(Pod{age: crashed, Restarts: 1})),
		}
		for ready := range 2 {
			for restarts := range 2 {
				pod := Pod{Ready: ready == 1, Restarts: restarts}
				t.running[ready][restarts] = newTemplate(m.pod(pod))
			}
		}
		p.apps = append(p.apps, t)
		p.sets = append(p.sets, m.labels)
	}
	return p
}

func (t *podTemplates) of(p Pod) template {
	switch {
	case p.age < 0:
		return t.pending
	case p.age%stages == crashed:
		return t.crashed
	}
	ready := 0
	if p.Ready {
		ready = 1
	}
	return t.running[ready][min(p.Restarts, 1)]
}

// Len returns the number of pods.
func (p *Pods) Len() int { return p.n }

// Identity returns the namespace, name and labels of pod i.
func (p *Pods) Identity(i int) (namespace, name string, set labels.Set) {
	a := podApp(i)
	var b [64]byte
	return AppAt(a).Namespace, string(suffix(append(b[:0], p.apps[a].prefix...), i)), p.sets[a]
}

// Append appends the JSON of pod i after the given number of updates.
func (p *Pods) Append(b []byte, i, updates int, resourceVersion int64) []byte {
	pod, what := PodAt(i, updates), uint64(i)
	created := began.Add(time.Duration(chance(what, propCreated)%(30*24*3600)) * time.Second)
	reached := func(age int) time.Time { // when the pod reached that stage of its life
		wait := chance(what+uint64(age)<<32, propDelay)
		return created.Add(time.Duration(age)*17*time.Minute +
			time.Duration(20+wait%600)*time.Second)
	}
	// The running container has run since the stage after the last crash.
	life, crash := uint64(pod.Restarts)<<32, stages*pod.Restarts-1
	return p.apps[podApp(i)].of(pod).append(b, func(b []byte, blank blank) []byte {
		switch blank {
		case blankSuffix:
			return suffix(b, i)
		case blankUID:
			return uid(b, what)
		case blankVersion:
			return strconv.AppendInt(b, resourceVersion, 10)
		case blankSent:
			return sent(b)
		case blankCreated:
			return timestamp(b, created)
		case blankScheduled:
			return timestamp(b, created.Add(time.Second))
		case blankDied:
			return timestamp(b, reached(crash))
		case blankBorn:
			return timestamp(b, reached(crash+1-stages))
		case blankStarted:
			return timestamp(b, reached(crash+1))
		case blankTransition:
			return timestamp(b, reached(pod.age))
		case blankNode:
			return appendNode(b, podNode(i))
		case blankHostIP:
			return address(b, 172, 18<<16|podNode(i)+10)
		case blankPodIP:
			return address(b, 10, (i*7_919+70_000)%(1<<24))
		case blankContainer0:
			return digest(b, what+life, propContainerID)
		case blankContainer1:
			return digest(b, what, propContainerID+4)
		case blankContainer2:
			return digest(b, what, propContainerID+8)
		case blankRestarted:
			return digest(b, what+life-1<<32, propContainerID)
		case blankRestarts:
			return strconv.AppendInt(b, int64(pod.Restarts), 10)
		}
		panic("fleet: a pod has no such blank")
	})
}

// address appends an IPv4 address of network/8.
func address(b []byte, network byte, host int) []byte {
	b = strconv.AppendInt(b, int64(network), 10)
	for shift := 16; shift >= 0; shift -= 8 {
		b = strconv.AppendInt(append(b, '.'), int64(host>>shift&255), 10)
	}
	return b
}
