package object

// Packer compresses texts that resemble each other: those of one resource's objects. It is safe for concurrent use.
type Packer struct{}

// NewPacker makes a Packer that has seen nothing yet.
func NewPacker() *Packer { return &Packer{} }

// Pack has o hold its text in less memory, where that is possible. Others may read o meanwhile.
func (*Packer) Pack(*Object) {}
