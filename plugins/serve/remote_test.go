package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/internal/testca"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// configured counts how often it is.
type configured struct {
	handler.Func
	times int
}

func (c *configured) Configure(_ context.Context, config json.RawMessage) error {
	c.times++
	if string(config) == `"bad"` {
		return errors.New("no such config")
	}
	return nil
}

// A remote handler gets each config once, and no other one while somebody uses it.
func TestSharedConfig(t *testing.T) {
	c := &configured{}
	s := &service{handler: c, shared: newShared()}
	configure := func(config string) (problems int, code codes.Code) {
		t.Helper()
		resp, err := s.Configure(t.Context(), &handlerpb.ConfigureRequest{Config: []byte(config)})
		return len(resp.GetProblems()), status.Code(err)
	}
	if s.shared.begin() {
		t.Error("a stream began before there was a config")
	}
	for _, step := range []struct {
		what, config string
		inUse        bool
		problems     int
		code         codes.Code
		times        int
	}{
		{"the first", `"a"`, false, 0, codes.OK, 1},
		{"the same again", `"a"`, false, 0, codes.OK, 1},
		{"the same, in use", `"a"`, true, 0, codes.OK, 1},
		{"another, in use", `"b"`, true, 0, codes.FailedPrecondition, 1},
		{"another", `"b"`, false, 0, codes.OK, 2},
		{"one that is refused", `"bad"`, false, 1, codes.OK, 3},
		{"the one before, which it may have forgotten", `"b"`, false, 0, codes.OK, 4},
	} {
		if step.inUse && !s.shared.begin() {
			t.Errorf("%s: no stream could begin", step.what)
		}
		if problems, code := configure(step.config); problems != step.problems || code != step.code || c.times != step.times {
			t.Errorf("%s: %d problems, %v, configured %d times; want %d, %v, %d", step.what, problems, code, c.times, step.problems, step.code, step.times)
		}
		if step.inUse {
			s.shared.end()
		}
	}
	configure(`"bad"`)
	if s.shared.begin() {
		t.Error("a stream began after the config was refused")
	}
}

// What cannot be served is said at once, and the end is an end.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	cert, key := ca.Issue(t, "oncall", "localhost")
	_, other := ca.Issue(t, "other", "localhost")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := RemoteOptions{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.File}
	for _, c := range []struct {
		want   string
		change func(*RemoteOptions)
	}{
		{"no such file", func(o *RemoteOptions) { o.CertFile = "/no/such/file" }},
		{"private key does not match", func(o *RemoteOptions) { o.KeyFile = other }},
		{"ClientCAFile: there is no certificate", func(o *RemoteOptions) { o.ClientCAFile = empty }},
		{"ClientCAFile: open", func(o *RemoteOptions) { o.ClientCAFile = "/no/such/file" }},
		{"listen", func(o *RemoteOptions) { o.Address = "127.0.0.1:http:1" }},
	} {
		o := good
		c.change(&o)
		if err := remote(t.Context(), handler.Func(nil), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := remote(ctx, handler.Func(nil), good); err != nil {
		t.Error(err)
	}
}
