package host

import (
	"context"
	"net/netip"
)

// SetLookUp has a Remote that does not run yet find its endpoints by other means than DNS.
func (r *Remote) SetLookUp(lookUp func(context.Context) ([]netip.AddrPort, error)) { r.lookUp = lookUp }
