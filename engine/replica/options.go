// This file owns which options a member accepts.

package replica

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
)

// check returns an error if o cannot be used.
func (o *Options) check() error {
	switch {
	case o.Identity == nil || o.Storage == nil || o.Dir == "":
		return errors.New("a replica needs an Identity, a Dir and a Storage")
	case len(o.Peers) < 3 || len(o.Peers)%2 == 0:
		return fmt.Errorf("the cluster would have %d replicas: give it three, or a larger odd number",
			len(o.Peers))
	case o.Peers[o.Name] == "":
		return fmt.Errorf("this replica, %q, is none of the cluster's: add its name and address",
			o.Name)
	}
	for name, address := range o.Peers {
		if err := CheckName(name); err != nil {
			return err
		}
		if err := checkAddress(address); err != nil {
			return fmt.Errorf("the address of the replica %s, %q, is not HOST:PORT: %w", name, address, err)
		}
	}
	cert := o.Identity.current().certificate.Leaf
	if err := namesMember(cert, o.Name, o.Peers[o.Name]); err != nil {
		return fmt.Errorf("the others will not accept this replica: %w", err)
	}
	return nil
}

// names of members are short and need no quotes anywhere.
var nameLooks = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// CheckName returns an error if no member can have a name.
func CheckName(name string) error {
	if !nameLooks.MatchString(name) {
		return fmt.Errorf("a replica cannot be named %q: use letters, digits, '-', '.' and '_'", name)
	}
	return nil
}

// checkAddress returns an error if address is not HOST:PORT.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host == "" {
		return fmt.Errorf("the host is missing")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port is no number between 1 and 65535")
	}
	return nil
}
