package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// No text of a Secret reaches the disk: not of the cache, not of what waits, not of a dead letter and the reason that the
// handler gave. All the same it is told what happened while nobody looked, and what waited has its object again.
func TestSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	var values []string
	value := func() (encoded string) {
		v, encoded := randomSecret()
		values = append(values, v)
		return encoded
	}
	secret := func(name, value string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `, annotations: {note: "` + value + `"}}, data: {password: ` + value + `}}`
	}
	same := value()
	k.create(secret("same", same))
	changed, gone := k.create(secret("changed", value())), k.create(secret("gone", value()))
	control := strings.ReplaceAll(rand.Text()+rand.Text(), "NS", "") // what is no secret is on disk, where this test looks for secrets
	k.create(configMap("control", "{text: "+control+"}"))

	rules := func(handlers string) string {
		return k.text(source("configmaps", configMaps) +
			source("secrets", "resource: v1/secrets, namespaces: [NS], indexes: {byPassword: object.data.password}") +
			toldBy("log", "builtin: log") + handlers +
			ruleFor("control", "source: configmaps, handler: waits") +
			ruleFor("told", "source: secrets, handler: log") +
			ruleFor("waits", "source: secrets, handler: waits, delivery: every") +
			ruleFor("paid", "source: secrets, handler: waits, payload: {password: object.data.password}") +
			ruleFor("dead", "source: secrets, handler: dead, where: object.metadata.name == 'same'"))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	heard := filepath.Join(t.TempDir(), "heard")
	dead := toldBy("dead", fmt.Sprintf("command: [%q, %s, %q]", self, gossipCommand, heard))
	hold := rules(away("waits") + dead)
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	d := state.settled(hold)
	for _, name := range []string{"same", "changed", "gone"} {
		k.sees(d, "told NS/"+name+" synced")
	}
	d.poll("the dead letter", func() bool { return d.metric("informd_dead_letters") == "1" })
	d.poll("the others to wait", func() bool { return d.waiting("waits") == 3 && d.waiting("paid") == 3 })
	d.awaitWritten()
	wantOnDisk(t, state.dir, control)
	wantNotOnDisk(t, state.dir, values)
	d.kill()
	wantNotOnDisk(t, state.dir, values)

	k.patch(changed, "data: {password: "+value()+"}")
	k.delete(gone)
	d = state.settled(hold)
	k.sees(d, "told NS/changed synced")
	k.sees(d, "told NS/gone deleted")
	k.create(secret("new", value()))
	k.sees(d, "told NS/new added")
	d.awaitWritten()
	wantNotOnDisk(t, state.dir, values)
	// Ended in good order, it leaves no more.
	d.stop()
	wantNotOnDisk(t, state.dir, values)
	compare(t, []string{"told NS/changed synced", "told NS/gone deleted", "told NS/new added"}, k.briefs(d.events))
	for _, ev := range d.events {
		if ev.Event == handler.Deleted && (ev.UID == "" || bytes.Contains(ev.Object, []byte("password"))) {
			t.Errorf("the deletion does not come with its identity alone: %.300s", ev.Object)
		}
	}

	// What waited has its object again, and so has the dead letter.
	touch(t, filepath.Dir(heard), filepath.Base(heard))
	d = state.settled(rules(toldBy("waits", "builtin: log") + dead))
	for _, rule := range []string{"waits", "paid"} {
		for _, name := range []string{"same", "changed", "new"} {
			d.await(rule+" of "+name, func(events []handler.Event) bool {
				for _, ev := range events {
					if ev.Rule == rule && ev.Name == name {
						return true
					}
				}
				return false
			})
		}
	}
	state.command("dead", "retry", "--rule", "dead")
	k.eventually("the dead letter to be delivered", func() bool { return len(linesOf(t, filepath.Dir(heard), "heard")) == 1 })
	if got := linesOf(t, filepath.Dir(heard), "heard")[0]; !strings.Contains(got, same) {
		t.Errorf("the dead letter does not have its object: %s", got)
	}
	d.awaitWritten()
	d.stop()
	for _, ev := range d.events {
		text := string(ev.Object) + string(ev.Payload)
		if ev.Event != handler.Deleted && ev.Rule != "control" && !strings.Contains(text, "password\":\"") {
			t.Errorf("%s has no password: %s", brief(ev), text)
		}
		if ev.Name == "same" && !strings.Contains(text, same) {
			t.Errorf("%s has another password", brief(ev))
		}
	}
	wantNotOnDisk(t, state.dir, values)
}

// randomSecret is a text that cannot be compressed, and how a Secret has it.
func randomSecret() (text, encoded string) {
	for {
		text = rand.Text() + rand.Text()
		if encoded = base64.StdEncoding.EncodeToString([]byte(text)); !strings.Contains(text+encoded, "NS") { // which manifests replace
			return text, encoded
		}
	}
}

func wantOnDisk(t *testing.T, dir, text string) {
	t.Helper()
	for _, path := range filesOf(t, dir) {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(text)) {
			return
		}
	}
	t.Errorf("%q is in no file of %s: looking for secrets there shows nothing", text, dir)
}

// wantNotOnDisk looks for values as they are, in base64, and in base64 at any offset within a longer text.
func wantNotOnDisk(t *testing.T, dir string, values []string) {
	t.Helper()
	files := filesOf(t, dir)
	if len(files) == 0 {
		t.Fatalf("no files in %s", dir)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has just gone
		}
		for i, value := range values {
			forms := map[string]string{"plain": value}
			for offset := range 3 {
				inner := base64.RawStdEncoding.EncodeToString([]byte(value[offset : offset+(len(value)-offset)/3*3]))
				forms[fmt.Sprint("base64 at ", offset)] = inner
			}
			for form, text := range forms {
				if bytes.Contains(content, []byte(text)) || len(text) > 40 && bytes.Contains(content, []byte(text[:20])) {
					t.Errorf("%s has value %d, %s", path, i, form)
				}
			}
		}
	}
}
