// Package socket lets plain connections read and write at less cost for Go's scheduler.
//
// Before each system call Go tells its scheduler, because the call may block. If the program was idle, that wakes Go's monitor thread, which then
// looks at all processors every 20 µs, until the program is idle again. If a message comes every half a millisecond, the monitor takes more
// processor time than the message does. But a socket of Go never blocks: it answers EAGAIN, and the network poller waits for it. So this
// package reads and writes such sockets without telling the scheduler.
package socket
