package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// podNames are those of the StatefulSet in deploy/replicas.
var podNames = []string{"informd-0", "informd-1", "informd-2"}

// The guide shows what kubectl prints for deploy/replicas, and how to make its certificate.
func TestReplicasGuide(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(harness.Root + "/docs/guides/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for _, o := range deployManifests(t, "replicas/*.yaml") {
		fmt.Fprintf(&printed, "%s created\n", asKubectl(o))
	}
	names := "informd certs certs --names " + strings.Join(podNames, ",") + "\n"
	for _, want := range []string{printed.String(), names} {
		if !strings.Contains(string(content), want) {
			t.Errorf("docs/guides/replicas.md does not show:\n%s", want)
		}
	}
}

// What deploy/ and deploy/replicas have in common is the same in both.
func TestReplicasDifferByLittle(t *testing.T) {
	t.Parallel()
	one, three := statefulSet(t, "*.yaml"), statefulSet(t, "replicas/*.yaml")
	if *three.Spec.Replicas != 3 || three.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Errorf("these are no replicas: %+v", three.Spec)
	}
	three.Spec.Replicas, three.Spec.PodManagementPolicy = one.Spec.Replicas, one.Spec.PodManagementPolicy
	// What deploy/replicas has beside is compared here, or taken away.
	pod, alone := &three.Spec.Template.Spec, &one.Spec.Template.Spec
	c := &pod.Containers[0]
	begin := slices.Index(c.Args, "--name")
	want := []string{"--name", "$(POD_NAME)", "--peers", "", "--peer-tls", "/peer-tls"}
	if begin < 0 || len(c.Args) != begin+len(want) {
		t.Fatalf("the arguments are %q", c.Args)
	}
	var peers []string
	for _, name := range podNames {
		peers = append(peers, fmt.Sprintf("%s=%s.%s.%s.svc:%d", name, name, three.Spec.ServiceName, three.Namespace, peerPort(t, c)))
	}
	want[3] = strings.Join(peers, ",")
	if diff := cmp.Diff(want, c.Args[begin:]); diff != "" {
		t.Errorf("the arguments of a replica (-want +got):\n%s", diff)
	}
	c.Args = c.Args[:begin]
	c.Env = nil
	c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "peers" })
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "peer-tls" })
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "peer-tls" })
	pod.TopologySpreadConstraints = nil
	pod.TerminationGracePeriodSeconds = alone.TerminationGracePeriodSeconds
	if diff := cmp.Diff(one, three); diff != "" {
		t.Errorf("deploy/4-informd.yaml and deploy/replicas/4-informd.yaml differ (-one +three):\n%s", diff)
	}

	find := func(pattern, kind string) (found *unstructured.Unstructured) {
		for _, o := range deployManifests(t, pattern) {
			if o.GetKind() == kind {
				found = o
			}
		}
		return found
	}
	service, of := find("replicas/*.yaml", "Service"), find("*.yaml", "Service")
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	_ = unstructured.SetNestedSlice(service.Object, ports[:1], "spec", "ports")
	if diff := cmp.Diff(of.Object, service.Object); diff != "" {
		t.Errorf("the Services differ by more than a port (-one +three):\n%s", diff)
	}
	// The last Certificate is the replicas'.
	names, _, _ := unstructured.NestedStringSlice(find("replicas/certificates.yaml", "Certificate").Object, "spec", "dnsNames")
	if !slices.Equal(names, podNames) {
		t.Errorf("the certificate names %q, want %q", names, podNames)
	}
}

// peerPort returns the port on which a container listens for the other replicas.
func peerPort(t *testing.T, c *corev1.Container) int32 {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == "peers" {
			return p.ContainerPort
		}
	}
	t.Fatal("no port for the other replicas")
	return 0
}

// replaceByReplicas applies deploy/replicas where deploy/ is. The API server refuses that as long as
// the StatefulSet of one is there. It does not know cert-manager's resources.
func replaceByReplicas(t *testing.T, a *applier) {
	for _, o := range deployManifests(t, "replicas/4-informd.yaml") {
		err := a.apply(t, o, metav1.DryRunAll)
		if o.GetKind() != "StatefulSet" {
			if err != nil {
				t.Errorf("%s: %v", asKubectl(o), err)
			}
			continue
		}
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "updates to statefulset spec") {
			t.Errorf("replicas in the place of one: %v", err)
		}
		a.k.Delete(o)
	}
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		for _, o := range deployManifests(t, "replicas/4-informd.yaml") {
			if err := a.apply(t, o, dryRun...); err != nil {
				t.Errorf("%s: %v", asKubectl(o), err)
			}
			if o.GetKind() == "StatefulSet" && dryRun == nil {
				a.k.Delete(o) // the test may run again in this cluster
			}
		}
	}
}

// pods are three containers of deploy/replicas, as a StatefulSet has them.
type pods struct {
	t       *testing.T
	k       *harness.Kube
	image   *image
	set     appsv1.StatefulSet
	own     bool
	rules   map[string]string
	certs   string // of informd certs
	hosts   string // the file /etc/hosts
	ports   []string
	made    []container
	daemons []*harness.Daemon // of made
	ended   []*harness.Daemon
	stalls  func() time.Duration // see harness.Stalls
}

// stalled is how long a machine may keep a process waiting without any replica taking over, with
// some distance to the second after which one does.
const stalled = 500 * time.Millisecond

// runReplicas runs the containers of the StatefulSet's Pods. It does to them what a StatefulSet does
// in a rolling update, and what an operator does to change a disk.
func runReplicas(t *testing.T, i *image, set appsv1.StatefulSet, own bool) {
	p := newPods(t, i, set, own)
	for n := range podNames {
		p.made = append(p.made, p.newPod(n))
		p.daemons = append(p.daemons, nil)
	}
	for n := range podNames {
		p.start(n)
	}
	p.awaitAll()
	p.fail("first")
	p.awaitOnce("first")
	c := set.Spec.Template.Spec.Containers[0]
	for n, d := range p.daemons {
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if code, body := d.Get(probe.HTTPGet.Path); code != http.StatusOK {
				t.Errorf("%s of %s: %d %s", probe.HTTPGet.Path, podNames[n], code, body)
			}
		}
	}

	// A rolling update.
	for _, n := range []int{2, 1, 0} {
		began := time.Now()
		p.stop(n)
		if took, most := time.Since(began), time.Duration(*set.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second; took > most {
			t.Errorf("%s ends in %v, and the kubelet kills it after %v", podNames[n], took, most)
		}
		name := "during-" + podNames[n]
		p.fail(name)
		p.start(n)
		p.daemons[n].AwaitReady()
		p.awaitOnce(name)
	}
	if n := p.terms(); n > 4 && p.stalls() < stalled {
		t.Errorf("a rolling update made %d hand-overs, want three at most", n-1)
	}
	p.awaitOnce("first")

	// A new certificate, and then a new disk.
	p.renew()
	p.stop(2)
	p.made[2] = p.newPod(2)
	p.start(2)
	p.awaitAll()
	p.fail("last")
	p.awaitOnce("last")
	for n := range podNames {
		p.stop(n)
	}
}

func newPods(t *testing.T, i *image, set appsv1.StatefulSet, own bool) *pods {
	t.Helper()
	p := &pods{
		stalls: harness.Stalls(t),
		t:      t, k: harness.NewKube(t, cluster.Shared(t)), image: i, set: set, own: own,
		certs: filepath.Join(t.TempDir(), "certs"), hosts: filepath.Join(t.TempDir(), "hosts"),
	}
	rules, err := p.k.Typed.CoreV1().ConfigMaps(set.Namespace).Get(t.Context(), "informd-rules", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.rules = rules.Data
	var hosts strings.Builder
	for _, name := range podNames { // the containers have the network of this machine
		fmt.Fprintf(&hosts, "127.0.0.1 %s.%s.%s.svc\n", name, set.Spec.ServiceName, set.Namespace)
		_, port, err := net.SplitHostPort(freeOnAllHosts(t))
		if err != nil {
			t.Fatal(err)
		}
		p.ports = append(p.ports, port)
	}
	if err := os.WriteFile(p.hosts, []byte(hosts.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	p.issue()
	return p
}

// issue makes certificates as the guide says.
func (p *pods) issue() {
	p.t.Helper()
	code, _, stderr := harness.Informd(p.t, "certs", p.certs, "--names", strings.Join(podNames, ","))
	if code != 0 {
		p.t.Fatalf("informd certs: %s", stderr)
	}
}

// newPod returns a Pod with new volumes. Its ports are its own, since all are on one machine.
func (p *pods) newPod(n int) container {
	p.t.Helper()
	pod := newPod(p.t, p.k, p.image, p.set, p.own, p.rules)
	c := &p.set.Spec.Template.Spec.Containers[0]
	changes := []string{"$(POD_NAME)", podNames[n]}
	for n, name := range podNames {
		host := name + "." + p.set.Spec.ServiceName + "." + p.set.Namespace + ".svc:"
		changes = append(changes, fmt.Sprint(host, peerPort(p.t, c)), host+p.ports[n])
	}
	for i, arg := range pod.Args {
		pod.Args[i] = strings.NewReplacer(changes...).Replace(arg)
	}
	pod.Env = append(pod.Env, "POD_NAME="+podNames[n])
	pod.Mounts = append(pod.Mounts, mount{From: p.hosts, To: "/etc/hosts"})
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		publish(p.t, pod.at("/peer-tls"), name, p.certificate(name), 0o440, p.own)
	}
	return pod
}

// certificate returns a file that informd certs has made.
func (p *pods) certificate(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.certs, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *pods) start(n int) { p.daemons[n] = harness.StartDaemon(p.t, p.made[n].command(p.t)) }

func (p *pods) stop(n int) {
	p.t.Helper()
	p.daemons[n].Stop()
	p.ended = append(p.ended, p.daemons[n])
}

// awaitAll waits until all Pods are ready, and one of them may be lost.
func (p *pods) awaitAll() {
	p.t.Helper()
	for _, d := range p.daemons {
		d.AwaitReady()
	}
	d, status := p.daemons[0], ""
	defer func() {
		if p.t.Failed() {
			p.t.Log(status)
		}
	}()
	d.Poll("informd to tolerate a loss", func() bool {
		_, status = inside(p.t, p.own, d.Cmd.Process.Pid, p.made[0].Env, "/usr/bin/informd", "cluster", "status")
		return strings.HasPrefix(status, "informd tolerates the loss of 1 more\n")
	})
}

// fail makes a Pod that fails.
func (p *pods) fail(name string) {
	made := p.k.Create(`{apiVersion: v1, kind: Pod, metadata: {namespace: NS, name: ` + name + `}, spec: {containers: [{name: c, image: i}]}}`)
	p.k.Patch(made, `status: {phase: Failed, reason: Evicted}`, "status")
}

// awaitOnce waits until a Pod's event was delivered, and checks that it came once. All three run.
func (p *pods) awaitOnce(name string) {
	p.t.Helper()
	came := 0
	p.k.Eventually("an event of "+name, func() bool {
		came = 0
		for _, d := range slices.Concat(p.daemons, p.ended) {
			d.Until("anything", func() bool {
				for _, ev := range d.Events {
					if ev.Namespace == p.k.Ns && ev.Name == name {
						came++
					}
				}
				return true
			})
		}
		return came > 0
	})
	if came != 1 && p.stalls() < stalled {
		p.t.Errorf("the event of %s came %d times", name, came)
	}
}

// terms returns how often a Pod has begun to lead. All three run.
func (p *pods) terms() (n int) {
	for _, d := range slices.Concat(p.daemons, p.ended) {
		n += harness.Count(d.Logged(), `"msg":"this informd leads"`)
	}
	return n
}

// renew gives the Pods another certificate of the same authority, and waits until they use it.
func (p *pods) renew() {
	p.t.Helper()
	for _, path := range []string{"tls.crt", "tls.key", "server", "client"} {
		if err := os.RemoveAll(filepath.Join(p.certs, path)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.issue()
	for n := range podNames {
		republish(p.t, p.made[n], "/peer-tls", p.own, func(name, _ string) string { return p.certificate(name) })
	}
	for n, d := range p.daemons {
		d.Poll("the new certificate to be used", func() bool {
			inside(p.t, p.own, d.Cmd.Process.Pid, p.made[n].Env, "/usr/bin/informd", "cluster", "status")
			return harness.Count(d.Logged(), "the certificate was replaced") > 0
		})
	}
}
