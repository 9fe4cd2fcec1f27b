package source

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/apistub"
)

// A credential plugin that hangs is the reason of the trouble. It delays no end, and once it answers,
// all goes on.
func TestCredentialPluginThatHangs(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(pods, "Pod", true)
	server.Apply(pods, body("a", 1))
	folder := t.TempDir()
	fifo := filepath.Join(folder, "answer")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	plugin := filepath.Join(folder, "slow-plugin")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\nexec cat "+fifo+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := server.Config()
	config.ExecProvider = &clientcmdapi.ExecConfig{
		Command: plugin, APIVersion: "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	Impatient(client, config)
	s, _ := newInformers(t, config, Options{})
	s.over.lists = client
	impatiently(s)
	i := s.Informer(Selection{Resource: pods})
	e := newEar()
	i.Consume(consumer(e.hear))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if uid, err := s.ClusterUID(ctx); err == nil {
		t.Errorf("the cluster's uid is %q without credentials", uid)
	}
	awaitReason(t, i, Failing, "the credential plugin slow-plugin does not answer")
	stop := run(t, s)
	awaitReason(t, i, Failing, "the credential plugin slow-plugin does not answer")
	began := time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	// The plugin answers now. No goroutine may wait for it after the test.
	token := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}`
	if err := os.WriteFile(fifo, []byte(token), 0); err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.Config().Host+"/version", nil)
	answer, err := client.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the plugin has answered: %v, %v", answer, err)
	}
	_ = answer.Body.Close()
}
