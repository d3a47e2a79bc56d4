package lease

// A Holder is a process, and tells another one on the same machine whether it lives.
type Holder struct {
	Host    string `bson:"host"`
	Boot    string `bson:"boot"`    // of the machine: pids begin anew
	Space   string `bson:"space"`   // the pid's namespace
	Started string `bson:"started"` // when the process was, since the machine was booted: pids come again
	PID     int    `bson:"pid"`
}
