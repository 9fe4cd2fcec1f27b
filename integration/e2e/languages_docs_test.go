package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// block is a fenced one of a page, below a heading.
type block struct{ heading, language, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z-]*)\n(.*?)^```$")

func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, m := range fence.FindAllStringSubmatch(section, -1) {
			all = append(all, block{heading, m[1], m[2]})
		}
	}
	return all
}

// beginner follows a page of docs/ in a fresh folder beside a clone of informd, with informd in the
// PATH.
type beginner struct {
	t   *testing.T
	dir string
	env []string
}

func newBeginner(t *testing.T) *beginner {
	t.Helper()
	root := harness.ShortDir(t)
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	a := &beginner{t: t, dir: filepath.Join(root, "mine")}
	for _, dir := range []string{a.dir, filepath.Join(root, "bin")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"informd": repository, "bin/informd": harness.Binary} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	a.env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	return a
}

func (a *beginner) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// does runs a block in a shell, and returns its output.
func (a *beginner) does(commands string) string {
	a.t.Helper()
	cmd := exec.Command("bash", "-euxc", commands)
	cmd.Dir, cmd.Env = a.dir, a.env
	out, err := cmd.CombinedOutput()
	a.t.Logf("%s", out)
	if err != nil && offline.Match(out) {
		harness.Lacks(a.t, "the module proxy, from which a module of its own needs more than this one, is out of reach")
	}
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return string(out)
}

var offline = regexp.MustCompile(`(?m)^.*(GOPROXY=off|: Get "https?://.*: dial tcp|proxyconnect tcp).*$`)

// blocksIn returns a page's blocks of one language below a heading, or in the whole page if heading
// is empty.
func blocksIn(t *testing.T, page, heading, language string) (texts []string) {
	t.Helper()
	for _, b := range blocks(t, page) {
		if (heading == "" || b.heading == heading) && b.language == language {
			texts = append(texts, b.text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s: no block of language %q below %q", page, language, heading)
	}
	return texts
}

// The tutorial takes authors from nothing to a checked handler, in Go.
func TestHandlerPageInGo(t *testing.T) {
	t.Parallel()
	a := newBeginner(t)
	a.env = append(a.env, "GOSUMDB=off") // this module's go.sum fixes the modules that it shares
	const page = "../../docs/tutorials/first-handler.md"
	check := func(heading string) {
		a.write("main.go", blocksIn(t, page, heading, "go")[0])
		if out := a.does(blocksIn(t, page, heading, "sh")[0]); !strings.Contains(out, "\nok: ") {
			t.Errorf("%s: no check that ends well", heading)
		}
	}
	check("A handler in ten lines")
	if out := a.does(blocksIn(t, page, "Run it by hand", "sh")[0]); !strings.Contains(out, "  answer   done") {
		t.Error("no answer by hand")
	}
	check("Read the cache and change the cluster")
	a.write("oncall.yaml", blocksIn(t, page, "Name it in a manifest", "yaml")[0])
	a.does("informd check --handlers -f oncall.yaml")

	k := harness.NewKube(t, cluster.Shared(t))
	d := harness.StartDaemon(t, exec.Command(harness.Raced, "run", "-f", filepath.Join(a.dir, "oncall.yaml"), "--kubeconfig", cluster.Shared(t).Kubeconfig(), "--state-dir", harness.ShortDir(t)))
	d.AwaitReady()
	k.Create(harness.PodOn("there", "NS-north"))
	node, changes := k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-north}}`), 0
	d.Poll("the node to be told of its pod", func() bool {
		changes++ // the node may have come before its pod
		k.Patch(node, fmt.Sprintf(`metadata: {annotations: {change: "%d"}}`, changes))
		events, err := k.Typed.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == k.Ns+"-north" && e.Reason == "Counted" && e.Message == "Pods on this node: 1"
		})
	})
	d.Stop()
}

// In other languages.
func TestHandlerPageInOtherLanguages(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, installed string, _ []string) {
		a := newBeginner(t)
		heading := "In Node.js"
		if _, err := os.Stat(filepath.Join(installed, "diary.py")); err == nil {
			heading = "In Python"
			if out, err := exec.Command("sh", "-c", "/usr/bin/python3 -c 'import grpc, google.protobuf' && protoc --version").CombinedOutput(); err != nil {
				harness.Lacks(t, fmt.Sprintf("the page is about Debian, and its packages are not here: %s", out))
			}
		}
		var mine []string
		for line := range strings.Lines(blocksIn(t, "../../docs/guides/handlers-in-python-and-node.md", heading, "sh")[0]) {
			switch {
			case strings.HasPrefix(line, "apt-get install "):
				line = ""
			case strings.HasPrefix(line, "npm install "): // what is installed is linked
				line = fmt.Sprintf("ln -s %s/node_modules\n", installed)
			}
			mine = append(mine, strings.NewReplacer("…/", "../informd/", "/tmp/oncall.jsonl", filepath.Join(installed, "diary")).Replace(line))
		}
		if out := a.does(strings.Join(mine, "")); !strings.Contains(out, "\nok    reads what the cache has\n") || !strings.Contains(out, "\nok    asks for actions that can be taken\n") {
			t.Error("the cache is not read, or no action asked for")
		}
	})
}

// The manifests on these pages have no mistakes.
func TestHandlerPageManifests(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		"../../docs/tutorials/first-rules.md", "../../docs/tutorials/first-handler.md", "../../docs/guides/change-the-cluster.md",
		"../../docs/guides/look-up-other-objects.md", "../../docs/guides/read-the-cache.md",
		"../../examples/handlers/python/README.md", "../../examples/handlers/node/README.md", "../../examples/handlers/surge/README.md",
	} {
		for _, b := range blocks(t, page) {
			if b.language != "yaml" || !strings.HasPrefix(b.text, "apiVersion: ") {
				continue
			}
			if out, err := exec.Command(harness.Binary, "check", "-f", harness.WriteFile(t, "page.yaml", b.text)).CombinedOutput(); err != nil {
				t.Errorf("%s, %s: %v\n%s", page, b.heading, err, out)
			}
		}
	}
}
