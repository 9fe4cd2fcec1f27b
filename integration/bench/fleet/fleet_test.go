package fleet_test

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/bench/fleet"
)

// kinds are all, with what they are as Kubernetes' own types.
var kinds = []struct {
	name    string
	objects apistub.Synthetic
	typed   func() metav1.Object
}{
	{"pods", fleet.NewPods(400), func() metav1.Object { return &corev1.Pod{} }},
	{"deployments", fleet.NewDeployments(220), func() metav1.Object { return &appsv1.Deployment{} }},
	{"config maps", fleet.NewConfigMaps(220), func() metav1.Object { return &corev1.ConfigMap{} }},
}

var sentAt = regexp.MustCompile(`"` + regexp.QuoteMeta(fleet.SentAnnotation) + `":"\d{19}"`)

// Objects are what Kubernetes' types hold, whole: to the byte what an API server makes of them, and
// who they say they are.
func TestObjectsLookReal(t *testing.T) {
	for _, k := range kinds {
		names, uids := map[string]bool{}, map[string]bool{}
		for i := range k.objects.Len() {
			for updates := i % 5; updates < 20; updates += 5 {
				text := k.objects.Append(nil, i, updates, 4711)
				o := k.typed()
				if err := json.Unmarshal(text, o); err != nil {
					t.Fatalf("%s: %v: %s", k.name, err, text)
				}
				again, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(text), string(again)); diff != "" {
					t.Fatalf("%s: %s", k.name, diff)
				}
				namespace, name, labels := k.objects.Identity(i)
				if o.GetNamespace() != namespace || o.GetName() != name || o.GetResourceVersion() != "4711" || !reflect.DeepEqual(o.GetLabels(), map[string]string(labels)) {
					t.Fatalf("%s: not %s/%s with %v: %s", k.name, namespace, name, labels, text)
				}
				if len(sentAt.FindAll(text, -1)) != 1 || o.GetAnnotations()[fleet.SentAnnotation] == "" {
					t.Fatalf("%s: not sent at any time: %s", k.name, text)
				}
				names[namespace+"/"+name], uids[string(o.GetUID())] = true, true
			}
		}
		if len(names) != k.objects.Len() || len(uids) != k.objects.Len() {
			t.Errorf("%s: %d names and %d uids of %d objects", k.name, len(names), len(uids), k.objects.Len())
		}
	}
}

// An object is the same at every call, except for the time of sending. An update changes it.
func TestObjectsAreDeterministic(t *testing.T) {
	without := func(text []byte) string { return string(sentAt.ReplaceAll(text, nil)) }
	for _, k := range kinds {
		for i := range k.objects.Len() {
			before := ""
			for updates := range 20 {
				now := without(k.objects.Append(nil, i, updates, 1))
				if again := without(k.objects.Append([]byte("x"), i, updates, 1)); again != "x"+now {
					t.Fatalf("%s %d: %s\nthen\n%s", k.name, i, now, again)
				}
				if now == before {
					t.Fatalf("%s %d: update %d changes nothing", k.name, i, updates)
				}
				before = now
			}
		}
	}
}

// PodAt and DeploymentAt agree with the JSON.
func TestStates(t *testing.T) {
	pods, deployments := kinds[0].objects, kinds[1].objects
	phases, restarts := map[string]int{}, map[int]int{}
	for i := range 200 {
		for updates := range 20 {
			var pod corev1.Pod
			if err := json.Unmarshal(pods.Append(nil, i, updates, 1), &pod); err != nil {
				t.Fatal(err)
			}
			got := fleet.Pod{
				App:  fleet.App{Namespace: pod.Namespace, Name: pod.Labels["app"], Tier: pod.Labels["tier"]},
				Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Restarts: int(pod.Status.ContainerStatuses[0].RestartCount),
			}
			for _, c := range pod.Status.Conditions {
				got.Ready = got.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}
			if diff := cmp.Diff(fleet.PodAt(i, updates), got, cmpopts.IgnoreUnexported(got)); diff != "" {
				t.Fatalf("pod %d after %d updates (- PodAt, + its JSON): %s", i, updates, diff)
			}
			if ready := pod.Status.ContainerStatuses[0].Ready; ready != got.Ready {
				t.Errorf("pod %d after %d updates: its container's ready is %v", i, updates, ready)
			}
			phases[got.Phase]++
			restarts[got.Restarts]++
		}
	}
	if phases["Pending"] < 10 || phases["Running"] < 3_000 || restarts[0] < 500 || restarts[2] < 200 {
		t.Errorf("hardly varied: phases %v, restarts %v", phases, restarts)
	}
	for i := range 400 {
		for updates := range 3 {
			var d appsv1.Deployment
			if err := json.Unmarshal(deployments.Append(nil, i, updates, 1), &d); err != nil {
				t.Fatal(err)
			}
			got := fleet.Deployment{App: fleet.App{Namespace: d.Namespace, Name: d.Labels["app"], Tier: d.Labels["tier"]},
				Replicas: int(d.Status.Replicas), Ready: int(d.Status.ReadyReplicas)}
			if want := fleet.DeploymentAt(i, updates); got != want {
				t.Fatalf("deployment %d after %d updates: %+v; its JSON says %+v", i, updates, want, got)
			}
		}
	}
}

// The sizes that docs/benchmarks.md speaks of.
func TestSizes(t *testing.T) {
	for n, want := range []struct{ least, mean, most, managed int }{{2000, 2850, 5000, 750}, {2000, 2750, 5000, 1000}, {1000, 1650, 3000, 400}} {
		k := kinds[n]
		least, most, sum, managed := math.MaxInt, 0, 0, 0
		for i := range k.objects.Len() {
			text := k.objects.Append(nil, i, i%4, 12_345_678)
			least, most, sum = min(least, len(text)), max(most, len(text)), sum+len(text)
			o := k.typed()
			if err := json.Unmarshal(text, o); err != nil {
				t.Fatal(err)
			}
			o.SetManagedFields(nil)
			bare, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			managed += len(text) - len(bare)
		}
		mean, managed := sum/k.objects.Len(), managed/k.objects.Len()
		t.Logf("%s: %d to %d bytes, mean %d, of it managedFields %d", k.name, least, most, mean, managed)
		near := func(got, want int) bool { return got*100 > want*85 && got*100 < want*115 }
		if least < want.least || most > want.most || !near(mean, want.mean) || !near(managed, want.managed) {
			t.Errorf("%s: %d to %d bytes, mean %d, of it managedFields %d; want %+v", k.name, least, most, mean, managed, want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	pods := fleet.NewPods(20_000)
	var text []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		text = pods.Append(text[:0], i%pods.Len(), i/pods.Len(), int64(i))
	}
	b.SetBytes(int64(len(text)))
}
