package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// remoteFlags are the flags that say where a remote handler is.
type remoteFlags struct{ address, ca, cert, key, serverName string }

// spec returns nil without --address.
func (f remoteFlags) spec() (*handlertest.RemoteHandler, error) {
	files := []string{f.ca, f.cert, f.key}
	if f.address == "" {
		isSet := func(s string) bool { return s != "" }
		if slices.ContainsFunc(append(files, f.serverName), isSet) {
			return nil, errors.New(
				"--tls-ca, --tls-cert, --tls-key and --tls-server-name go with --address only")
		}
		return nil, nil
	}
	at, err := config.ParseAddress(f.address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--address %w", err)
	case slices.Contains(files, ""):
		return nil, errors.New("--address needs --tls-ca, --tls-cert and --tls-key: " +
			"informd talks to remote handlers with mutual TLS only")
	}
	return &handlertest.RemoteHandler{
		Host: at.Host, Port: at.Port, DNS: at.DNS,
		CA: f.ca, Cert: f.cert, Key: f.key, ServerName: f.serverName,
	}, nil
}

// readCache reads a cache for tests. It returns nil without a path.
func readCache(path string) (map[string]handlertest.Source, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var sources map[string]struct {
		Indexes map[string]string `json:"indexes"`
		Objects []json.RawMessage `json:"objects"`
	}
	if err := yaml.UnmarshalStrict(text, &sources); err != nil {
		return nil, fmt.Errorf(
			"%s: %w: want sources by their names, each with indexes and objects", path, err)
	}
	all := make(map[string]handlertest.Source)
	for name, s := range sources {
		made := handlertest.Source{
			Objects: s.Objects, Indexes: make(map[string]func(json.RawMessage) []string),
		}
		for index, text := range s.Indexes {
			program, err := expr.Compile(text, expr.Options{Scope: expr.Index})
			if err != nil {
				return nil, fmt.Errorf("%s: %s: index %s: %w", path, name, index, err)
			}
			made.Indexes[index] = func(text json.RawMessage) []string {
				o, err := object.FromJSON(text)
				if err != nil {
					return nil // the check reports it
				}
				// As in the daemon, an expression that fails gives no values.
				values, _ := program.Strings(&expr.Env{Object: o.Decode(program.Paths())})
				return values
			}
		}
		all[name] = made
	}
	return all, nil
}

// readConfig reads a handler's config as JSON. It returns nil without a path.
func readConfig(flag, path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// eventsLike returns a function that makes events of other objects out of the one in a file.
func eventsLike(path string) (func(n int) handler.Event, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--event: %w", err)
	}
	var one handler.Event
	if err := json.Unmarshal(text, &one); err != nil {
		return nil, fmt.Errorf("--event: %s: %w: "+
			"want a single event, as the log builtin writes them, a line each", path, err)
	}
	if one.Event == "" || one.Name == "" {
		return nil, fmt.Errorf(
			"--event: %s: not an event: it needs at least the fields event and name", path)
	}
	return func(n int) handler.Event {
		ev := one
		ev.Attempt = 1
		ev.ID = fmt.Sprintf("%s-%d", one.ID, n)
		ev.Name = fmt.Sprintf("%s-%d", one.Name, n)
		ev.UID = fmt.Sprintf("%s-%d", one.UID, n)
		return ev
	}, nil
}
