import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

public class JDBC {
    {{code}}

    public static void main(String[] args) throws SQLException {
        try (Connection conn = DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
                + System.getenv("PGDATABASE"), System.getenv("PGUSER"), "")) {
            payOrder(conn, 42);
            try {
                payOrder(conn, 43);
            } catch (SQLException e) {
                return;
            }
            throw new IllegalStateException("the message that is refused was no error");
        }
    }
}
