package host_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/host"
)

// Errors about a handler tell the operator what to do, and nothing of the handler remains.
func TestLaunchFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	withPath := func(path string) host.Spec { return host.Spec{Name: "h", Path: path} }
	digest := spec("echo")
	digest.SHA256 = strings.Repeat("0", 64)
	noDigest := spec("echo")
	noDigest.SHA256 = "123"
	noDir := spec("echo")
	noDir.Dir = filepath.Join(dir, "nowhere")

	for _, c := range []struct {
		name string
		spec host.Spec
		want string
	}{
		{"missing", withPath(filepath.Join(dir, "missing")), "missing does not exist"},
		{"not in PATH", withPath("no-such-program-anywhere"), `"no-such-program-anywhere" is not a program in the daemon's PATH; the path of a file has a slash, as ./no-such-program-anywhere`},
		{"not executable", withPath(write("plain", "x", 0o600)), "plain is not executable: chmod +x it"},
		{"a directory", withPath(dir), "is not a file"},
		{"not a program", withPath(write("text", "no program", 0o700)), "another platform, or is a script without #!"},
		{"no interpreter", withPath(write("script", "#!/no/such/shell\n", 0o700)), "the interpreter or loader that it names"},
		{"other digest", digest, "the manifest allows only 000000"},
		{"no digest", noDigest, `sha256 "123" is not a digest of 64 hexadecimal digits`},
		{"no working directory", noDir, "or its working directory, does not exist"},

		{"garbage", spec("garbage"), `not a handshake but "Hello [31m, I am a web server"`},
		{"exits", spec("exits"), `it exited with status 3; its last line on standard error: "cannot open /etc/oncall.conf"`},
		{"exits without error", spec("exits0"), "it exited with status 0"},
		{"silent", spec("silent"), "it was not ready within 3s of its start"},
		{"endless line", spec("endless"), `not a handshake but "xxxx`},
		{"other protocol version", spec("version7"), `it speaks version "7" of the handler protocol, this informd speaks 1`},
		{"other core version", spec("core9"), "it speaks version 9 of go-plugin's core protocol"},
		{"net/rpc", spec("netrpc"), `it speaks "netrpc", not grpc`},
		{"tcp", spec("tcp"), `it listens on tcp "127.0.0.1:80"`},
		{"somebody else's socket", spec("outside"), `it listens on unix "/run/docker.sock"`},
		{"no socket", spec("nobody"), "the connection broke during describe"},
		{"bad certificate", spec("badcert"), "the certificate in its handshake cannot be read"},
		{"mute socket", spec("mute"), "it was not ready within 3s of its start"},

		{"hangs in describe", spec("hang-describe"), "it did not answer describe within 2s"},
		{"hangs in configure", spec("hang-configure"), "it did not answer configure within 2s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := try(t, c.spec, limitsFor(c.want))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
			if err != nil && (len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b")) {
				t.Errorf("unfit for a log: %q", err)
			}
		})
	}
}

// limitsFor returns Options whose limits of time are short if an error is about the end of one, and
// otherwise longer than a process takes that gets little of the processor.
func limitsFor(want string) host.Options {
	opts := host.Options{StartTimeout: time.Minute, DescribeTimeout: time.Minute, ConfigureTimeout: time.Minute}
	switch {
	case strings.HasPrefix(want, "it was not ready within 3s"):
		opts.StartTimeout = 3 * time.Second
	case strings.HasPrefix(want, "it did not answer describe within 2s"):
		opts.DescribeTimeout = 2 * time.Second
	case strings.HasPrefix(want, "it did not answer configure within 2s"):
		opts.ConfigureTimeout = 2 * time.Second
	}
	return opts
}

// If a confined process fails to start, the error names its limits, which may be the reason. If it
// fails later, it does not.
func TestStartUnderLimits(t *testing.T) {
	t.Parallel()
	const hint = "; its confinement may keep it from starting: limits.files"
	for mode, want := range map[string]string{
		"exits":         `it exited with status 3; its last line on standard error: "cannot open /etc/oncall.conf"` + hint,
		"exits0":        "it exited with status 0" + hint,
		"silent":        "it was not ready within 3s of its start" + hint,
		"netrpc":        `it speaks "netrpc", not grpc`,
		"nobody":        "the connection broke during describe",
		"hang-describe": "it did not answer describe within 2s",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			opts, s := limitsFor(want), spec(mode)
			free := try(t, s, opts)
			s.Confine.Limits.Files = 100
			confined := try(t, s, opts)
			if confined == nil || !strings.HasSuffix(confined.Error(), want) {
				t.Errorf("confined: got %v, want …%s", confined, want)
			}
			if free == nil || strings.Contains(free.Error(), "confined") {
				t.Errorf("not confined: got %v", free)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	err := try(t, spec("refuses"), host.Options{})
	refused, ok := errors.AsType[*host.RefusedError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	want := []host.Problem{
		{Path: []string{"routes", "0", "channel"}, Message: "no such channel: ops"},
		{Message: "token is missing"},
	}
	if diff := cmp.Diff(want, refused.Problems); diff != "" {
		t.Error(diff)
	}
	if want := `handler "refuses": it refuses its config: routes.0.channel: no such channel: ops; token is missing`; err.Error() != want {
		t.Errorf("got %s", err)
	}

	// A refused handler is not launched again and again.
	h := start(t, spec("refuses"), host.Options{})
	waitFor(t, "refused", func() bool { return h.Status().State == host.Refused })
	if s := h.Status(); s.Restarts != 0 || !strings.Contains(s.Reason, "token is missing") {
		t.Errorf("%+v", s)
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.Config = []byte(`{"greeting":"hi"}`)
	d, err := host.Try(t.Context(), s, patient(host.Options{RunDir: shortDir(t)}))
	want := host.Description{Name: "echo", Version: "1.2.3", ConfigSchema: []byte(`{"type":"object"}`)}
	if diff := cmp.Diff(want, d); diff != "" || err != nil {
		t.Error(diff, err)
	}
	s.Config = []byte(`{"greeting":5}`)
	if err := try(t, s, host.Options{}); err == nil || !strings.Contains(err.Error(), "cannot unmarshal number") {
		t.Errorf("got %v", err)
	}
	d, err = host.Try(t.Context(), spec("boasts"), patient(host.Options{RunDir: shortDir(t)}))
	if err != nil || d.WindowBytes != 64<<20 || len(d.Name) > 140 {
		t.Errorf("got %+v, %v", d, err)
	}
	d, err = host.Try(t.Context(), spec("verbose"), patient(host.Options{RunDir: shortDir(t)}))
	if err != nil || len(d.ConfigSchema) > 1<<20 || len(d.Capabilities) > 64 {
		t.Errorf("kept a schema of %d bytes and %d capabilities, %v", len(d.ConfigSchema), len(d.Capabilities), err)
	}
}

// The log omits what a handler does not say about itself.
func TestReadyLine(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"echo":  "INFO handler ready handler=echo name=echo version=1.2.3 pid=",
		"never": "INFO handler ready handler=never pid=",
	} {
		log := &recorder{}
		ready(t, start(t, spec(mode), host.Options{Logger: log.logger()}))
		waitFor(t, want, func() bool { // the host takes events before it logs that
			return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.HasPrefix(line, want) })
		})
	}
}

// With a digest, exactly the file that was checked runs. That includes scripts.
func TestDigest(t *testing.T) {
	t.Parallel()
	s := spec("echo")
	s.SHA256 = digestOf(t, os.Args[0])
	if err := try(t, s, host.Options{}); err != nil {
		t.Error(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := writeProgram(script, []byte("#!/bin/sh\nexec \"$PROGRAM\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Path, s.SHA256 = script, strings.ToUpper(digestOf(t, script))
	s.Env = append(s.Env, "PROGRAM="+os.Args[0])
	if err := try(t, s, host.Options{}); err != nil {
		t.Error(err)
	}
}

func digestOf(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A handler that ignores the offer of TLS, or gets none, is spoken to without TLS.
func TestWithoutTLS(t *testing.T) {
	t.Parallel()
	if err := try(t, spec("notls"), host.Options{}); err != nil {
		t.Error(err)
	}
	s := spec("echo")
	s.DisableTLS = true
	if err := try(t, s, host.Options{}); err != nil {
		t.Error(err)
	}
	s = spec("unasked")
	s.DisableTLS = true
	if err := try(t, s, host.Options{}); err == nil || !strings.Contains(err.Error(), "although it was not offered TLS") {
		t.Errorf("got %v", err)
	}
}

func TestRunDir(t *testing.T) {
	t.Parallel()
	_, err := host.Try(t.Context(), spec("echo"), patient(host.Options{RunDir: "/tmp/" + strings.Repeat("x", 90)}))
	if err == nil || !strings.Contains(err.Error(), "is too long") {
		t.Errorf("got %v", err)
	}
}
