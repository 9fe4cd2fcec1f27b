package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// author writes objects of several kinds at random, also while the control plane restarts, and
// keeps a ledger of its writes.
type author struct {
	t        testing.TB
	client   dynamic.Interface
	ns       string
	subjects []*subject
	pace     time.Duration // between the writes of one writer

	stop    context.CancelFunc
	writers sync.WaitGroup
}

// kind is a resource that an author writes.
type kind struct {
	schema.GroupVersionResource
	name string
}

func (k kind) manifest() string {
	return strings.TrimPrefix(k.GroupVersion().String()+"/"+k.Resource, "/")
}

// subject is the history of one name. One goroutine at a time writes it.
type subject struct {
	kind    kind
	key     ledger.Key
	team    string
	present bool
	step    int
	lives   []ledger.Life
}

const authorWriters = 8

func newAuthor(t testing.TB, client dynamic.Interface, namespace string, kinds []kind, n int) *author {
	a := &author{t: t, client: client, ns: namespace}
	for i := range n {
		k := kinds[i%len(kinds)]
		a.subjects = append(a.subjects, newSubject(k, fmt.Sprintf("o-%04d", i)))
	}
	return a
}

func newSubject(k kind, name string) *subject {
	return &subject{kind: k, key: ledger.Key{Resource: k.Resource, Name: name}, team: "red"}
}

// begin creates half of the objects.
func (a *author) begin(seed uint64) {
	a.each(seed, func(s *subject, random *rand.Rand) {
		if random.IntN(2) == 0 {
			a.create(a.t.Context(), s, random)
		}
	})
}

func (a *author) each(seed uint64, do func(*subject, *rand.Rand)) {
	var writers sync.WaitGroup
	for w := range authorWriters {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := w; i < len(a.subjects); i += authorWriters {
				do(a.subjects[i], random)
			}
		})
	}
	writers.Wait()
}

// run writes until end.
func (a *author) run(seed uint64) {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(a.t.Context())
	for w := range authorWriters {
		a.writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(authorWriters+w)))
			var own []*subject
			for i := w; i < len(a.subjects); i += authorWriters {
				own = append(own, a.subjects[i])
			}
			tick := time.NewTicker(a.pace)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				n := len(own)
				if random.IntN(4) == 0 {
					n = min(n, 3) // some change all the time
				}
				a.act(own[random.IntN(n)], random)
			}
		})
	}
}

// end stops the writers and waits until their last writes are complete.
func (a *author) end() {
	a.stop()
	a.writers.Wait()
}

// act makes a random change that is possible for the object.
func (a *author) act(s *subject, random *rand.Rand) {
	ctx := a.t.Context()
	switch {
	case !s.present:
		a.create(ctx, s, random)
	case random.IntN(10) < 7:
		a.update(ctx, s, random)
	default:
		a.remove(ctx, s)
		if random.IntN(2) == 0 {
			a.create(ctx, s, random)
		}
	}
}

// next returns the next state to write.
func (s *subject) next(random *rand.Rand) (step int, metadata map[string]any) {
	s.step++
	if random.IntN(4) == 0 {
		s.team = map[string]string{"red": "blue", "blue": "red"}[s.team]
	}
	pad := make([]byte, 50+random.IntN(200))
	for i := range pad {
		pad[i] = byte('a' + random.IntN(26))
	}
	return s.step, map[string]any{
		"labels":      map[string]any{"team": s.team},
		"annotations": map[string]any{"step": fmt.Sprint(s.step), "pad": string(pad)},
	}
}

func (a *author) of(s *subject) dynamic.ResourceInterface {
	return a.client.Resource(s.kind.GroupVersionResource).Namespace(a.ns)
}

func (a *author) create(ctx context.Context, s *subject, random *rand.Rand) {
	step, metadata := s.next(random)
	metadata["name"] = s.key.Name
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.kind.GroupVersion().String(), "kind": s.kind.name, "metadata": metadata,
	}}
	made, write := a.write(ctx, s, "create", step, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return a.of(s).Create(ctx, o, metav1.CreateOptions{})
	})
	if made == nil {
		return
	}
	s.present = true
	s.lives = append(s.lives, ledger.Life{UID: string(made.GetUID())})
	a.note(s, made, write)
}

func (a *author) update(ctx context.Context, s *subject, random *rand.Rand) {
	step, metadata := s.next(random)
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		a.t.Error(err)
		return
	}
	made, write := a.write(ctx, s, "patch", step, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return a.of(s).Patch(ctx, s.key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	})
	if made != nil {
		a.note(s, made, write)
	}
}

func (a *author) remove(ctx context.Context, s *subject) {
	_, write := a.write(ctx, s, "delete", 0, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return nil, a.of(s).Delete(ctx, s.key.Name, metav1.DeleteOptions{})
	})
	s.present = false
	s.lives[len(s.lives)-1].Deleted = &write
}

func (a *author) note(s *subject, made *unstructured.Unstructured, write ledger.Write) {
	text, err := made.MarshalJSON()
	if err != nil {
		a.t.Error(err)
		return
	}
	look, team, _, err := ledger.Look(text)
	life := &s.lives[len(s.lives)-1]
	if err != nil || look.UID != life.UID {
		a.t.Errorf("%s: %v; uid %s, want %s", s.key, err, look.UID, life.UID)
		return
	}
	life.States = append(life.States, ledger.State{Write: write, Version: look.Version, Digest: look.Digest, Team: team})
}

// write makes one write happen. If the response is lost, it asks the server whether the write took
// effect: the object has the step, or is gone for step 0. Nobody else writes the object.
func (a *author) write(ctx context.Context, s *subject, what string, step int,
	attempt func(context.Context) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, ledger.Write) {
	ctx, cancel := context.WithTimeout(ctx, 2*harness.Patience)
	defer cancel()
	write := ledger.Write{Sent: time.Now()}
	for {
		made, err := attempt(ctx)
		if err != nil {
			var there bool
			if made, there = a.outcome(ctx, s, step); !there {
				err = fmt.Errorf("not done: %w", err)
			} else {
				err = nil
			}
		}
		write.Answered = time.Now()
		if err == nil {
			return made, write
		}
		select {
		case <-time.After(100 * time.Millisecond): // the control plane may be restarting
		case <-ctx.Done():
			a.t.Errorf("%s %s: %v", what, s.key, err)
			return nil, write
		}
	}
}

// outcome asks until the server answers.
func (a *author) outcome(ctx context.Context, s *subject, step int) (there *unstructured.Unstructured, done bool) {
	for {
		got, err := a.of(s).Get(ctx, s.key.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			return got, got.GetAnnotations()["step"] == fmt.Sprint(step)
		case apierrors.IsNotFound(err) && strings.Contains(err.Error(), fmt.Sprintf("%q not found", s.key.Name)):
			return nil, step == 0 // the object is missing, not its kind, which is missing while the API server starts
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, false
		}
	}
}

// history returns what was written. The writers must have ended.
func (a *author) history() ledger.History {
	h := make(ledger.History)
	for _, s := range a.subjects {
		if len(s.lives) > 0 {
			h[s.key] = s.lives
		}
	}
	return h
}
