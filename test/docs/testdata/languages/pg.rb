require "pg"

{{code}}

conn = PG.connect
pay_order(conn, 42)
begin
  pay_order(conn, 43)
rescue PG::Error
  exit
end
abort "the message that is refused was no error"
