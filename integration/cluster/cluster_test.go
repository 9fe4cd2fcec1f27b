package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) {
	code := Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestSharedControlPlane(t *testing.T) {
	c := Shared(t)
	if Shared(t) != c {
		t.Fatal("the second call returned another cluster")
	}
	client := newClient(t, c)

	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major != "1" || !strings.HasPrefix(version.GitVersion, "v1."+version.Minor+".") {
		t.Errorf("server version %+v; want a released one", version)
	}
	metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(metrics), "apiserver_longrunning_requests") {
		t.Error("/metrics has no apiserver_longrunning_requests, which tells how many watches there are")
	}

	// Nobody needs a service account: none exists.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestLimitedUserHasNoPermissions(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", Shared(t).LimitedKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing as the limited user: %v; want Forbidden", err)
	}
}

func TestOneControlPlanePerDir(t *testing.T) {
	_, err := Start(t.Context(), Shared(t).Dir())
	if err == nil || !strings.Contains(err.Error(), "in use by another controlplane") {
		t.Errorf("a second control plane: %v; want to be told that the folder is in use", err)
	}
}

// A control plane restarts with the same data after a clean end with an open watch, and after a
// crash.
func TestRestart(t *testing.T) {
	c := New(t)
	kubeconfig := readFile(t, c.Kubeconfig())
	client := newClient(t, c)
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	kept, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), kept, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}

	for _, end := range []struct {
		name string
		do   func() error
	}{
		{"stop", c.Stop},
		{"stop again", c.Stop},
		{"kill", func() error { c.Kill(); return nil }},
		{"none, Restart stops it", func() error { return nil }},
	} {
		if err := end.do(); err != nil {
			t.Fatalf("%s: %v", end.name, err)
		}
		if err := c.Restart(t.Context()); err != nil {
			t.Fatalf("restart after %s: %v", end.name, err)
		}
		if readFile(t, c.Kubeconfig()) != kubeconfig {
			t.Errorf("after %s, the kubeconfig is another", end.name)
		}
		got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("after %s: %v", end.name, err)
		}
		if got.UID != kept.UID || got.ResourceVersion != kept.ResourceVersion {
			t.Errorf("after %s: uid %s, resourceVersion %s; want %s, %s", end.name,
				got.UID, got.ResourceVersion, kept.UID, kept.ResourceVersion)
		}
	}
	for range watch.ResultChan() { // ends: the server has closed it
	}
}

func TestStopReportsACrash(t *testing.T) {
	c := New(t)
	if err := syscall.Kill(c.process.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.process.done
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Stop after a crash: %v", err)
	}
	c.process.asked = true // for New's cleanup
}

// For a binary that is not a control plane, the error says what to do, or quotes its output.
func TestMissingBinary(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"missing", "", `run "make controlplane"`},
		{"fails", "echo the port is taken >&2; exit 3", "the port is taken"},
		{"ends as if all were well", "exit 0", "exit status 0"},
		{"says something else", "echo already; exit 1", "exit status 1"},
		{"never gets ready", "echo reading; exec sleep 1000", "canceled"},
		{"is ready without a kubeconfig", "echo ready; exec sleep 1000", "kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "controlplane")
			if test.script != "" {
				if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+test.script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("INFORMD_CONTROLPLANE", binary)
			ctx, cancel := context.WithCancel(t.Context())
			if test.want == "canceled" {
				cancel()
			}
			defer cancel()
			_, err := Start(ctx, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want an error with %q", err, test.want)
			}
		})
	}
}

func TestTailIsBounded(t *testing.T) {
	var log tail
	for i := range 10_000 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	log.Write([]byte(strings.Repeat("x", 1<<20) + "end"))
	if len(log.kept) != 8<<10 || !strings.HasSuffix(string(log.kept), "xxxend") {
		t.Errorf("kept %d bytes that end in %q", len(log.kept), log.kept[max(0, len(log.kept)-10):])
	}
}

func newClient(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
