package trial

import (
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/config"
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
